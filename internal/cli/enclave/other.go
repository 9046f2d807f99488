//go:build !linux

package enclave

import (
	"context"
	"errors"
	"io"
)

// Engine is an engine inside; there is none on this system.
type Engine struct{ Socket string }

var errLinux = errors.New("that needs Linux")

func supported() error { return errLinux }

// Inside reports whether this process runs in an enclave.
func Inside() bool { return false }

// Number is 0: there is no enclave.
func Number() int { return 0 }

// First reports whether this process is the first one of an enclave.
func First() bool { return false }

// Enter refuses: that needs Linux.
func Enter(context.Context, io.Writer, io.Writer) (int, error) { return 0, errLinux }

// Supervise is for the first process of an enclave, of which there is none.
func Supervise(io.Writer) int { return 1 }

// Start refuses: that needs Linux.
func Start(context.Context, string) (*Engine, error) { return nil, errLinux }

// Stop has nothing to end.
func (e *Engine) Stop() error { return nil }
