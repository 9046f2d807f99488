package agent

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Clock is what an agent knows of time. Timers come from the time package, and
// SinceBoot must advance with them.
type Clock interface {
	// Boot returns the id of the machine's boot, and the time since it, with
	// the time asleep counted.
	Boot() (id string, since clock.Duration, err error)
	// Wall returns the wall clock. Only freshness and certificates read it.
	Wall() clock.Instant
}

type systemClock struct{ bootID string }

// System returns the machine's own clock.
func System() Clock { return &systemClock{} }

func (c *systemClock) Boot() (string, clock.Duration, error) {
	if c.bootID == "" {
		b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return "", 0, fmt.Errorf("read the boot id: %w", err)
		}
		c.bootID = strings.TrimSpace(string(b))
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return "", 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return c.bootID, clock.FromStd(time.Duration(ts.Nano())), nil
}

func (c *systemClock) Wall() clock.Instant { return clock.FromTime(time.Now()) }
