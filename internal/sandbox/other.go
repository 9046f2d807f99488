//go:build unix && !linux

package sandbox

import (
	"errors"
	"syscall"
)

// Nothing ends a child here when its parent is killed.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Enter refuses: that needs Linux.
func (w World) Enter() (code int, err error) { return 0, errors.New("namespaces need Linux") }

// StorageDriver is the one that works everywhere.
func StorageDriver(string) string { return "vfs" }
