package convert

import (
	"time"

	"github.com/moby/moby/api/types/container"
)

// RunState is whether a container runs, of what inspect says.
type RunState string

// The run states. Created was never started; FailedStart could not be started,
// which engines show as created with an error (or an exit code) beside it.
const (
	Created     RunState = "created"
	FailedStart RunState = "start failed"
	Running     RunState = "running"
	Paused      RunState = "paused"
	Restarting  RunState = "restarting"
	Exited      RunState = "exited"
	Removing    RunState = "removing"
	Dead        RunState = "dead" // could not be removed entirely
)

// RunInfo is how a container runs or ended.
type RunInfo struct {
	State RunState
	// Health is starting, healthy or unhealthy; empty without a healthcheck.
	Health string
	// StartedAt and FinishedAt are the engine's clock; zero means never.
	StartedAt, FinishedAt time.Time
	// ExitCode means something when State is Exited, Restarting or FailedStart.
	ExitCode int
	Error    string // the engine's words for a failed start
	Restarts int    // by the engine since the last start that it was asked for
	OOM      bool
}

// Up reports whether the container's processes exist, frozen or not.
func (r RunInfo) Up() bool { return r.State == Running || r.State == Paused }

// Run reads how a container runs. A paused one says Running too, and one whose
// start failed says created: the state alone tells them apart.
func Run(c *container.InspectResponse) RunInfo {
	s := c.State
	if s == nil {
		return RunInfo{State: Dead, Error: "the engine shows no state"}
	}
	out := RunInfo{StartedAt: instant(s.StartedAt), FinishedAt: instant(s.FinishedAt), ExitCode: s.ExitCode,
		Error: s.Error, Restarts: c.RestartCount, OOM: s.OOMKilled}
	if s.Health != nil && s.Health.Status != container.NoHealthcheck {
		out.Health = string(s.Health.Status)
	}
	switch {
	case s.Dead || s.Status == container.StateDead:
		out.State = Dead
	case s.Status == container.StateRemoving:
		out.State = Removing
	case s.Paused || s.Status == container.StatePaused:
		out.State = Paused
	case s.Restarting || s.Status == container.StateRestarting:
		out.State = Restarting
	case s.Running:
		out.State = Running
	case s.Status == container.StateCreated && (s.Error != "" || s.ExitCode != 0):
		out.State = FailedStart
	case s.Status == container.StateCreated:
		out.State = Created
	default:
		out.State = Exited
	}
	return out
}

// instant reads the engine's time; its zero time and none are the zero one.
func instant(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}
