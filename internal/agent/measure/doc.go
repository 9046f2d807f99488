// Package measure takes the samples that heartbeats carry. It reads files of /proc
// and /sys and, where present, has nvidia-smi run; it never calls the engine,
// whose own statistics take a second per container.
//
// A workspace that ends while it is read is left out. Whatever else goes wrong
// is in Sample.Problems for as long as it lasts, and goes to Options.Report once.
package measure
