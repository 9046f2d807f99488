package sim

// task is something that happens at an instant.
type task struct {
	run func()
	// of is whose it is, nil the world's. It is void once its life is over; a message
	// of a host or to it once the host has another identity, or is cut off.
	of      *agent
	life    int32
	message bool
}

// due reports whether a task still has somebody to do it.
func (t *task) due() bool {
	switch {
	case t.of == nil:
		return true
	case t.message:
		return !t.of.cut() && t.of.enrolments == t.life
	}
	return t.of.up && t.of.life == t.life && len(t.of.w.found) == 0
}
