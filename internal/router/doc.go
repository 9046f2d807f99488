// Package router is the host's own reverse proxy: it leads requests for a host
// name and path to a port of a workspace. Routes and addresses are swapped while
// requests run, none is dropped: a request keeps the table and the address that
// it began with, a new one takes the new ones, and while a workspace is being
// replaced new requests wait for a bounded time. It has no goroutine of its own
// besides those of a Listener. A Table never changes once it is built, and may be shared by
// any number of goroutines.
package router
