// Package workspace is the reconciler of workspaces: long-lived containers with an
// identity, a name and storage that survive a replace.
//
// What to do is decided by internal/core/replace; this package observes the
// engine and carries the steps out. Every step looks again before it writes, so
// that it may be taken again after a crash at any call, and beside other agents:
// the name of a container is the lock of the engine.
package workspace
