// Package workspace decides what to do next about the containers of one
// workspace: it makes, starts, adjusts, replaces and removes them one step at a
// time, from what is on the engine alone. Which step a replacement has reached is
// read from names and labels, so that a crash after any call of the engine needs no
// memory of what was begun.
//
// A workspace's container has the engine's name N. While it is replaced, the next
// one is named N.<replica>.new and the one before N.<replica>.old. The old one is
// removed only when the new one is good.
package workspace
