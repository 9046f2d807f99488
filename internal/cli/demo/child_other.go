//go:build unix && !linux

package demo

import "syscall"

// childAttr puts a child into a process group of its own, so that Ctrl-C reaches
// only the demonstration.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
