// Package auth holds what a bridge presents to prove who it is: static headers,
// the output of a token command, and OAuth 2.1 tokens with everything needed to
// get, keep and renew them.
//
// The package promises that a secret never reaches a log, an error text or a
// foreign origin, and that nothing malformed is ever stored. It never repeats a
// request of the caller: whoever sent the request asks [Credentials] what a
// refusal means, and decides about a further delivery itself.
//
//	use, err := credentials.Apply(ctx, req)      // err: nothing was sent
//	... send req ...
//	status 401 or 403: d := credentials.Challenge(ctx, use, status, header)
//	    d.Action == Stop:   final; d.Why says it in one line
//	    d.Action == Again:  one further delivery makes sense
//	    d.Action == SignIn: for a call of the host, credentials.SignIn, then again
//	any other status: credentials.Accepted(use)
//
// What it does not promise: that two accounts of a server which gives no ID token
// are told apart when one signs in over the other without signing out.
package auth
