// Package interop holds tests that run published clients, unmodified, against the real server: the
// stackyard binary in a process of its own, on each storage engine.
//
// A client that cannot call the server, or cannot read its answer, has found a bug of the server.
//
// The package is a module of its own so that the product does not depend on those clients. It takes
// one thing from the product: the databases that its tests run on.
package interop
