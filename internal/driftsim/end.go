package driftsim

import (
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/driftsim/judge"
)

func (w *World) newJudge() *judge.Judge { return judge.New(normal) }

// seen is what the judge is told of a snapshot.
func seen(s *drift.Snapshot, op uint64) judge.Seen {
	out := judge.Seen{Node: s.Node, Session: s.Session, Op: op, Claims: s.Op, Complete: s.Complete, Instance: s.Instance, Objects: map[judge.Place]string{}, Configs: map[judge.Place]string{}}
	for i := range s.Objects {
		p := judge.Place{Node: s.Node, Kind: s.Objects[i].Kind, ID: s.Objects[i].ID}
		out.Objects[p], out.Configs[p] = s.Objects[i].ETag, string(s.Objects[i].Config)
	}
	return out
}

// said is what the judge is told of an answer.
func said(a *drift.Answer) judge.Said {
	out := judge.Said{Node: a.Node, Session: a.Session, Op: a.Op, Done: a.Outcome == drift.Applied || a.Outcome == drift.Already, Want: string(a.Want)}
	if a.Object != nil {
		out.There, out.Config = true, string(a.Object.Config)
	}
	return out
}

// end has faults and edits end, and everything come to rest: what is not as wanted says so.
// Then operators decide whatever waits for them, and everything has to be as wanted.
func (w *World) end() {
	w.quiet = true
	for _, n := range w.nodes {
		clear(n.refuses)
		n.incomplete, n.blank, n.flaky, n.quirks = 0, 0, 0, quirks{}
		if n.conn == nil || n.conn.session != w.session(n) {
			w.connect(n)
		}
		n.tell() // what it could not read before
	}
	w.settle()
	w.check()
	w.judge.Rest(w.devices(), w.waits, w.deletes, false)
	w.check()
	for range 25 {
		if !w.decideAll() {
			break
		}
		w.settle()
		w.check()
	}
	w.judge.Rest(w.devices(), w.waits, w.deletes, true)
	s, err := w.refold(0)
	w.must(err)
	if a, b := w.image(w.state), w.image(s); a != b {
		w.judge.Violate("S53", "the state folded from the log is another one:\n%s\n%s", a, b)
	}
}

func (w *World) session(n *node) uint64 {
	if st := w.state.Nodes[n.name]; st != nil && st.Online {
		return st.Session
	}
	return 0
}

// settle plays until nothing is on its way and nothing is due within the hour.
func (w *World) settle() {
	until := w.now.Add(clock.Hour)
	for range 6000 {
		w.due()
		w.pump()
		if w.deliver() {
			continue
		}
		next := w.state.Due()
		for _, n := range w.nodes {
			if c := n.conn; c != nil && c.rest > w.now {
				next = clock.Earliest(next, c.rest)
			}
		}
		if next == 0 || next > until {
			return
		}
		w.now = max(w.now, next)
	}
	w.judge.Violate("S45", "it does not come to rest within an hour")
}

// decideAll has operators decide one thing of all that waits for them, and reports whether
// there was any.
func (w *World) decideAll() (any bool) {
	for _, n := range w.nodes {
		st := w.state.Nodes[n.name]
		if st == nil || st.RetiredAt != 0 {
			continue
		}
		if n.conn == nil {
			w.connect(n)
			any = true
		}
		if st.Paused != nil {
			any = true
			_ = w.edit(drift.Resume{Node: n.name, Push: w.chance(50)})
		}
		if st.Adoption != nil {
			any = true
			if w.chance(50) || w.edit(drift.Adopt{Node: n.name, Resolution: "a" + strconv.Itoa(w.name())}) != nil {
				_ = w.edit(drift.Dismiss{Node: n.name})
			}
		}
	}
	for _, e := range w.episodes() {
		if e.Decided || w.state.Episode(e.Episode) == nil {
			any = true
			continue
		}
		any = true
		if err := w.resolve(e); err != nil && slices.Contains(drift.ActionsFor(e.Drift), drift.ActionDeleteNode) {
			_ = w.edit(drift.Resolve{Episode: e.Episode, Action: drift.ActionDeleteNode, Resolution: "s" + strconv.Itoa(w.name())})
		}
	}
	return any
}

// devices is what each device has that the server can reach.
func (w *World) devices() map[judge.Place]string {
	out := map[judge.Place]string{}
	for _, n := range w.nodes {
		for p, o := range n.objects {
			out[judge.Place{Node: n.name, Kind: p.kind, ID: p.id}] = string(o.config)
		}
	}
	return out
}

// waits is why a leg is not pushed, in the server's words.
func (w *World) waits(object, role string) string {
	o := w.state.Objects[object]
	if o == nil {
		return judge.Forgotten
	}
	if wait := w.state.Waits(o, role, w.now); wait != nil {
		return wait.Code
	}
	if l := o.Legs[role]; l != nil && l.Status == drift.Pushing {
		return "pushing"
	}
	return ""
}

// deletes reports whether the server is to delete what no object names any more.
func (w *World) deletes(p judge.Place) bool {
	for _, o := range w.state.Objects {
		if o.Anonymous && o.Kind == p.Kind && o.Definition.Legs[0].Node == p.Node && o.Definition.Legs[0].ID == p.ID {
			return true
		}
	}
	return false
}
