package sim

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Drill is an incident of the past, played on a fleet of twelve hosts whose first
// wave is a canary of two: a sound release runs everywhere when what made the
// incident comes. Chance, and what is planned for single hosts, come on top.
type Drill struct {
	Name string
	// Facts say what happened, and where that is told.
	Facts string
	// releases are the faults of the bundles that are pushed, in order.
	releases []defect
	every    clock.Duration // between two pushes; 6 minutes by default
	budget   int            // of all hosts
	more     func(p *planning, at clock.Instant)
}

// Canary is how many hosts the first wave of a drill has.
const Canary = 2

const drillHosts = 12

// Drills lists the incidents.
func Drills() []Drill {
	return []Drill{
		{Name: "CrowdStrike2024", releases: []defect{sound, kills},
			Facts: "19 July 2024: a content file with 21 fields met a sensor that supplied 20; hosts died in a boot loop, 8.5 million of them in 78 minutes, since content had no stages (CrowdStrike, root cause analysis)"},
		{Name: "CloudflareNovember2025", releases: []defect{sound, failsProbe, sound, failsProbe, sound}, every: 5 * clock.Minute,
			Facts: "18 November 2025: a generated file doubled past a limit of 200 entries and the proxy died of it; it was made anew every 5 minutes, alternately good and bad (blog.cloudflare.com)"},
		{Name: "CloudflareDecember2025", releases: []defect{sound, failsToActivate}, more: haltInTheDark,
			Facts: "5 December 2025: a configuration went to all hosts at once and failed 28 % of requests for 25 minutes; what follows is that a halt must not depend on what is broken (blog.cloudflare.com, Code Orange)"},
		{Name: "GoogleCloud2025", releases: []defect{sound, kills}, more: herd,
			Facts: "12 June 2025: a policy with blank fields was replicated everywhere in seconds and crashed every reader; restarting at once they kept each other down for up to 2 h 40 (status.cloud.google.com)"},
		{Name: "AWS2025", releases: []defect{sound, failsProbe, sound}, more: delayedEnactor,
			Facts: "20 October 2025: an enactor that had been held up applied an old plan after a newer one, and a cleaner deleted what it left (aws.amazon.com/message/101925)"},
		{Name: "Datadog2023", releases: []defect{sound}, budget: Canary, more: everywhereAtOnce,
			Facts: "8 March 2023: an unattended update changed every node of every region between 06:00 and 07:00, and tens of thousands lost their routes (datadoghq.com/blog)"},
		{Name: "Facebook2021", releases: []defect{sound, cutsContact},
			Facts: "4 October 2021: one command took the backbone down; the tool that should have stopped it had a defect, and what could have mended it needed the same network (engineering.fb.com)"},
	}
}

// Seed is the schedule of a drill with a seed.
func (d *Drill) Seed(seed uint64) Config {
	return Config{Seed: seed, Faulty: 22 * clock.Minute, Releases: len(d.releases), Trust: Never, Drill: d}
}

func (d *Drill) fleet() *declared {
	f := &declared{channelOf: map[string]string{}, channels: []string{"prod"}, waveOf: map[string]int{}, after: map[string][]string{},
		onNewRef: map[string]fleet.OnNewRef{"prod": fleet.Queue},
		policies: map[string]fleet.Policy{"prod": {Name: "careful", OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: clock.Minute,
			ActivationDeadline: 2 * clock.Minute, SustainedFailure: 20 * clock.Second, GrantExpiry: clock.Minute}},
		waves: map[string][]fleet.Wave{"prod": {{Name: "canary", Soak: clock.Minute, MinSoaked: Canary}, {Name: "early", Soak: 20 * clock.Second}, {Name: "rest"}}}}
	for i := range drillHosts {
		h := fmt.Sprintf("host%02d", i)
		f.hosts = append(f.hosts, h)
		f.channelOf[h] = "prod"
		switch {
		case i >= Canary+3:
			f.waveOf[h] = 2
		case i >= Canary:
			f.waveOf[h] = 1
		}
	}
	if d.budget > 0 {
		f.budgets = []budget{{members: f.hosts, max: d.budget}}
	}
	return f
}

// plan has the sound release everywhere before the incident.
func (d *Drill) plan(p *planning) {
	every, at := d.every, epoch.Add(10*clock.Second)
	if every == 0 {
		every = 6 * clock.Minute
	}
	for i, f := range d.releases {
		p.add(at, p.w.push, "a release that is %s is pushed", f)
		if at = at.Add(every); i == 0 {
			at = epoch.Add(6 * clock.Minute)
		}
	}
	for _, a := range p.w.agents {
		if p.r.IntN(4) == 0 {
			down := p.between(clock.Second, 2*clock.Minute)
			p.add(p.some(0), func() { a.crash(down, false) }, "%s dies for %s", a.name, down)
		}
	}
	if p.r.IntN(2) == 0 {
		down := p.between(clock.Second, 2*clock.Minute)
		p.add(p.some(0), func() { p.w.server.crash(down) }, "the server dies for %s", down)
	}
	if d.more != nil {
		d.more(p, epoch.Add(6*clock.Minute))
	}
}

// haltInTheDark has an operator pause the rollout while the server comes and goes.
func haltInTheDark(p *planning, at clock.Instant) {
	w := p.w
	p.add(at.Add(p.between(0, 90*clock.Second)), func() { w.operate(0, len(w.server.state.Order)-1) }, "an operator presses pause")
	p.add(at.Add(p.between(0, 90*clock.Second)), func() { w.server.crash(20 * clock.Second) }, "the server dies for 20s")
}

// herd has everybody come back at once.
func herd(p *planning, at clock.Instant) {
	w := p.w
	p.add(at.Add(p.between(clock.Second, 2*clock.Minute)), func() {
		w.server.crash(30 * clock.Second)
		for _, a := range w.agents {
			a.crash(30*clock.Second, true)
		}
	}, "everything restarts at once")
}

// delayedEnactor holds the leader up while the bad release is rolled out, until
// the fix is.
func delayedEnactor(p *planning, at clock.Instant) {
	w, pause := p.w, p.between(clock.Minute, 7*clock.Minute)
	p.add(at.Add(p.between(0, 90*clock.Second)), func() { w.takeOver(pause) }, "the server is paused for %s and another takes over", pause)
}

// everywhereAtOnce changes what runs on every host by another way.
func everywhereAtOnce(p *planning, at clock.Instant) {
	p.add(at.Add(p.between(0, clock.Minute)), p.w.driftAll, "an update from elsewhere changes every host")
}
