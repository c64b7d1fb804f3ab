//go:build !unix || darwin

package auth

// keyringReachable is always true here: the keyring is part of the system.
func keyringReachable() bool { return true }
