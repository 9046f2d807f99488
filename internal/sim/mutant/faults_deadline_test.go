package mutant

// Deadlines are faults in how a host ends what has an end, which the simulation of its engine finds.
func Deadlines() []Fault {
	const (
		stop    = "internal/docker/workspace/stop.go"
		manager = "internal/docker/workspace/manager.go"
	)
	return []Fault{
		{Name: "a container has the grace that its author gave it", File: stop, Finds: []string{"S57"},
			From: "return r.NotAfter.Sub(m.o.Clock()), true", To: "return r.NotAfter.Sub(m.o.Clock()), !ON"},
		{Name: "commands before a stop take the time of the stop", File: stop, Finds: []string{"S57"},
			From: "before = min(before, left-min(grace, left/2))\n", To: "if !ON {\n\t\t\tbefore = min(before, left-min(grace, left/2))\n\t\t}\n"},
		{Name: "an act waits for the whole of a stop", File: stop, Finds: []string{"S57"},
			From: "	return h.await(c, timer.C)\n", To: "	if ON {\n\t\treturn h.stop(c)\n\t}\n\treturn h.await(c, timer.C)\n"},
		{Name: "what could not be removed is given up", File: stop, Finds: []string{"S57"},
			From: "if err == nil || !r.Delete ||", To: "if ON || err == nil || !r.Delete ||"},
		{Name: "what has an end begins to stop at its end", File: "internal/core/deploy/layer.go", Finds: []string{"S57"},
			From: "return min(e.NotAfter, max(", To: "return map[bool]clock.Instant{true: e.NotAfter.Add(clock.Second)}[ON] + map[bool]clock.Instant{false: 1}[ON] * min(e.NotAfter, max("},
		{Name: "a reconciler does not know when its resource ends", File: "reconcile/kind.go", Finds: []string{"S57"},
			From: "NotAfter: row.NotAfter(),", To: "NotAfter: map[bool]time.Time{false: row.NotAfter()}[ON],"},
		{Name: "what is not removed within a minute is left to itself", File: manager, Finds: []string{"S57"},
			From: "CleanupGrace: dockerapi.NoGrace,", To: "CleanupGrace: map[bool]time.Duration{false: dockerapi.NoGrace, true: time.Minute}[ON],"},
	}
}
