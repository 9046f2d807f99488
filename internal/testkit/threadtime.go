package testkit

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime is the processor time that do takes on its thread: what else the machine runs is not in it.
func ThreadTime(t T, do func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var began, ended unix.Timespec
	Must(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &began))
	do()
	Must(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ended))
	return time.Duration(ended.Nano() - began.Nano())
}
