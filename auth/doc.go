// Package auth holds what a bridge presents to prove who it is: static headers,
// the output of a token command, and OAuth 2.1 tokens with everything needed to
// get, keep and renew them.
//
// The package promises that a secret never reaches a log, an error text or a
// foreign origin, and that nothing malformed is ever stored. It never repeats a
// request of the caller: whoever sent the request asks [Credentials] what a
// refusal means, and decides about a further delivery itself.
package auth
