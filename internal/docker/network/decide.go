package network

import (
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of networks.
const (
	CodeMissing         engine.Code = "network-missing"
	CodeExternalMissing engine.Code = "external-network-missing"
	CodeAmbiguous       engine.Code = "network-ambiguous"
	CodeDuplicate       engine.Code = "network-duplicate"
	CodeNameInUse       engine.Code = "network-name-taken"
	CodeDiffers         engine.Code = "network-differs"
	CodeForeignMembers  engine.Code = "foreign-containers-attached"
	CodeMembers         engine.Code = "containers-attached"
	CodeLeft            engine.Code = "network-left"
)

// Create makes the network. Remove takes one away, with those of this host's
// containers off it first. Replace is both; what is cured is named.
type (
	Create struct{}
	Remove struct {
		ID     string   `json:"id"`
		Detach []string `json:"detach,omitempty"` // containers by ID
	}
	Replace struct {
		ID          string            `json:"id"`
		Detach      []string          `json:"detach,omitempty"`
		Differences []diff.Difference `json:"differences"`
	}
)

// ActionName names the actions.
func (Create) ActionName() string  { return "create" }
func (Remove) ActionName() string  { return "remove" }
func (Replace) ActionName() string { return "replace" }

// Disrupts reports whether containers lose the network for a while.
func (a Remove) Disrupts() bool { return len(a.Detach) > 0 }

// Disrupts reports whether containers lose the network for a while.
func (a Replace) Disrupts() bool { return len(a.Detach) > 0 }

// again is when a network is checked again that waits for people.
const again = 30 * time.Second

// Decide compares by what the networks were made from.
func (m *Reconciler) Decide(v engine.View[Desired, Observed]) engine.Decision {
	d := decider{want: v.Resource.Desired, seen: v.Observed, until: v.Now.Add(again)}
	switch {
	case v.Resource.Delete:
		return d.retire()
	case d.want.Suspended:
		return engine.IsConverged(engine.Reason{})
	case d.want.Spec.External != "":
		return d.external()
	}
	return d.present()
}

type decider struct {
	want  Desired
	seen  Observed
	until time.Time
}

func (d *decider) wait(code engine.Code, format string, args ...any) engine.Decision {
	return engine.WaitUntil(d.until, engine.NewReason(code, fmt.Sprintf(format, args...)))
}

// owned are this host's networks: of the right name, and of others.
func (d *decider) owned() (named, others, foreign []Found) {
	for _, f := range d.seen.Found {
		switch {
		case !f.Owned:
			foreign = append(foreign, f)
		case f.Name == d.seen.Title:
			named = append(named, f)
		default:
			others = append(others, f)
		}
	}
	return named, others, foreign
}

func (d *decider) retire() engine.Decision {
	named, others, _ := d.owned()
	if d.want.Spec.External != "" {
		return engine.IsConverged(engine.Reason{})
	}
	if all := append(named, others...); len(all) > 0 {
		f := all[0] // the rest in later turns
		if running := names(f.Members, func(x Member) bool { return x.Ours && x.Running }); running != "" {
			return d.wait(CodeMembers, "%s has containers of this host that run: %s; it goes after them", f.Name, running)
		}
		return d.remove(f, engine.NewReason(CodeLeft, ""))
	}
	return engine.IsConverged(engine.Reason{})
}

// remove takes a network away unless something of somebody else is on it.
func (d *decider) remove(f Found, why engine.Reason) engine.Decision {
	if foreign := names(f.Members, notOurs); foreign != "" {
		return d.foreign(f, foreign)
	}
	return engine.Do(Remove{f.ID, ids(f.Members)}, why)
}

func (d *decider) foreign(f Found, foreign string) engine.Decision {
	return d.wait(CodeForeignMembers, "network %s has containers that are not this host's: %s; disconnect them (docker network disconnect %s NAME), or remove them", f.Name, foreign, short(f.ID))
}

func (d *decider) external() engine.Decision {
	switch len(d.seen.Found) {
	case 0:
		return d.wait(CodeExternalMissing, "network %s is declared external and is not there: create it (docker network create %s)", d.seen.Title, d.seen.Title)
	case 1:
		return engine.IsConverged(engine.Reason{})
	}
	return d.wait(CodeAmbiguous, "%d networks have the name %s (%s): remove all but the right one (docker network rm ID)", len(d.seen.Found), d.seen.Title, listed(d.seen.Found))
}

func (d *decider) present() engine.Decision {
	named, others, foreign := d.owned()
	switch {
	case len(foreign) > 0:
		return d.wait(CodeNameInUse, "the name %s belongs to a network that is not this host's (%s): remove it, declare it external, or give the declared one another title", d.seen.Title, listed(foreign))
	case len(named) == 0:
		return engine.Do(Create{}, engine.NewReason(CodeMissing, ""))
	case len(named) > 1:
		keep := d.survivor(named)
		for i, f := range named {
			if i != keep {
				return d.remove(f, engine.NewReason(CodeDuplicate, fmt.Sprintf("%d networks have the name %s; %s stays", len(named), f.Name, short(named[keep].ID))))
			}
		}
	}
	if ds := named[0].Differences; len(ds) > 0 {
		return d.replace(named[0], ds)
	}
	return d.renamed(others)
}

// renamed removes what has an earlier name, once nothing runs on it: workspaces
// move by themselves, and wait for this network to be there.
func (d *decider) renamed(others []Found) engine.Decision {
	var left []string
	for _, f := range others {
		if names(f.Members, func(x Member) bool { return !x.Ours || x.Running }) == "" {
			return d.remove(f, engine.NewReason(CodeLeft, "it was renamed to "+d.seen.Title))
		}
		left = append(left, f.Name)
	}
	if len(left) > 0 {
		return engine.IsConverged(engine.NewReason(CodeLeft, "containers are still on "+strings.Join(left, ", ")+", the network's earlier name"))
	}
	return engine.IsConverged(engine.Reason{})
}

func (d *decider) replace(f Found, ds []diff.Difference) engine.Decision {
	summary := diff.Summary(ds)
	if foreign := names(f.Members, notOurs); foreign != "" {
		return d.wait(CodeForeignMembers, "network %s has to be replaced (%s), and containers that are not this host's are on it: %s; disconnect them (docker network disconnect %s NAME)", f.Name, summary, foreign, short(f.ID))
	}
	return engine.Do(Replace{f.ID, ids(f.Members), ds}, engine.NewReason(CodeDiffers, summary))
}

// survivor is the one of several that stays: on which something of somebody else is,
// then the one with the most containers, then the oldest.
func (d *decider) survivor(fs []Found) int {
	best := 0
	weight := func(f *Found) int {
		n := len(f.Members)
		if names(f.Members, notOurs) != "" {
			n += 1 << 20
		}
		return n
	}
	for i := range fs {
		if weight(&fs[i]) > weight(&fs[best]) {
			best = i
		}
	}
	return best
}

func notOurs(m Member) bool { return !m.Ours }

func names(ms []Member, pick func(Member) bool) string {
	var out []string
	for _, x := range ms {
		if pick(x) {
			out = append(out, x.Name)
		}
	}
	return strings.Join(out, ", ")
}

func ids(ms []Member) []string {
	var out []string
	for _, x := range ms {
		out = append(out, x.ID)
	}
	return out
}

func listed(fs []Found) string {
	var out []string
	for _, f := range fs {
		out = append(out, short(f.ID))
	}
	return strings.Join(out, ", ")
}

func short(id string) string { return id[:min(len(id), 12)] }
