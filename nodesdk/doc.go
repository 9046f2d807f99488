// Package nodesdk connects a device that owns its configuration to a Steady server. The
// author of a driver implements Driver, three methods, has Open read the file that steady node
// token wrote, and calls Run with both; the package does the rest: it dials in, proves the node's identity, answers the server's requests one
// after the other, remembers what it applied, keeps secrets on the node, and reports changes
// that somebody else made.
//
// Outside this module it needs a WebSocket client and golang.org/x/sys alone, and no type of
// another package of this module is in its signatures. Messages of the protocol are described in
// messages.go; their JSON Schema is Schema.
package nodesdk
