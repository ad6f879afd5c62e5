// Package interop tests published clients, unmodified, against the real server: the stackyard binary as a
// process, on each storage engine. A client that cannot call the server, or cannot decode its response, has
// found a bug of the server.
//
// The package is a separate module, so that the product does not depend on those clients. From the product it
// uses only the test databases.
package interop
