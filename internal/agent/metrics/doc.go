// Package metrics collects what a heartbeat carries about a host: its load,
// memory, disks, network and GPUs, and what each workspace uses. It reads files
// of /proc and /sys and, where present, runs nvidia-smi; it never calls the
// engine, whose own statistics take a second per container.
//
// A value that could not be had is absent, never zero. A workspace that ends
// while it is read is left out. Whatever else goes wrong stands in
// Sample.Problems for as long as it lasts, and Options.Report hears it once.
package metrics
