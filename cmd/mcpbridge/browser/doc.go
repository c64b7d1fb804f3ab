// Package browser is the test that a real browser signs in: headless Chromium,
// started by the bridge itself, at a certified OpenID provider. It holds nothing
// else. "make browser" runs it.
package browser
