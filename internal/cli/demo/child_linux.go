package demo

import "syscall"

// childAttr puts a child into a process group of its own, so that Ctrl-C reaches
// only the demonstration, and ends it should the demonstration be killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
