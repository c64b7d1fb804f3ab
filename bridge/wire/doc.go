// Package wire makes deliveries: one [Client.Do] is one HTTP request on the
// wire, and it reports what is proven about it.
//
// A request goes through these steps:
//
//	Do ── target (remembered redirect) ── headers, cookies ── credentials
//	   ── acquire ─┬─ a connection of the pool (fresh enough, pinged)
//	               └─ resolve, connect, proxy, handshake
//	   ── one RoundTrip on exactly that connection ── head ── Body
//
// Connections are taken one by one (net/http.Transport.NewClientConn,
// x/net/http2.ClientConn), not through Transport.RoundTrip: the latter sends
// again on its own, a GET or a bodiless DELETE on a broken connection, and over
// HTTP/2 anything that can be rewound. A connection never does. Where a
// connection taken from the pool turns out to be dead before a byte of the
// request was written, Do takes another one; that is still one request.
//
// A redirect that is followed is a further delivery and counted in Hops.
//
// What is promised: requests and configured headers go to the configured origin
// (scheme, host, port) and nowhere else; no error text holds a header value, a
// query or credentials. What is not: a limit on the size of a body or on the
// time until it ends; both belong to the caller and its context.
package wire
