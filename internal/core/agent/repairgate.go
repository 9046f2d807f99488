package agent

import (
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// CodeNeedsGrant is the reason of a resource whose repair waits for a grant.
const CodeNeedsGrant engine.Code = "repair-needs-grant"

// CodeUnconfirmed is the reason of a resource whose repair waits until the server has answered
// after a start, a few seconds at most.
const CodeUnconfirmed engine.Code = "repair-unconfirmed"

// RepairBeginWithin is the longest that may pass between the gate and the record that
// an act has begun, which is one commit. What is not seen by then did not begin: the
// next observation found the resource as declared.
const RepairBeginWithin = 30 * clock.Second

// Disruptive is an action that may stop or replace something that runs. What ends a
// replacement that has begun is not: it must always be able to finish.
type Disruptive interface{ Disrupts() bool }

// Starting is an action that may do nothing but start what is stopped: it waits for
// nobody.
type Starting interface{ StartsOnly() bool }

// RepairAnswer is what the gate of repairs answers.
type RepairAnswer int

// The answers. What is Free needs no window, and what is InWindow belongs to the open
// one.
const (
	RepairFree RepairAnswer = iota
	RepairInWindow
	RepairWaits
	RepairUnconfirmed // until the server has said that this host's state is the newest
)

// AdmitRepair says whether an action that repairs a resource of a parent may begin;
// shut keeps what needs a window out of it. What the managed layer has is no part of a
// bundle, and a host on its way to a generation repairs everything on that way.
func (s *State) AdmitRepair(parent engine.Ref, a engine.Action, shut bool, now clock.Instant) RepairAnswer {
	d, ok := a.(Disruptive)
	switch {
	case !ok || !d.Disrupts() || parent == deploy.ManagedLayer || !s.Machine.AtRest() || s.Removal.empties():
		if starts, only := a.(Starting); s.Unconfirmed() && !(only && starts.StartsOnly()) {
			return RepairUnconfirmed
		}
		return RepairFree
	case !shut && s.Repairs.Open(now):
		return RepairInWindow
	}
	return RepairWaits
}

// ObserveRepairs reads from the rows of resources which repairs wait, and of those let
// into the window what became of them. Staged has what cannot be changed while it runs, of resources
// that wait for the next boot. Begun says that one of them is in no row yet.
func (r *Repairs) ObserveRepairs(rows []engine.Row, admitted map[engine.Ref]bool, staged map[engine.Ref]string, begun bool) RepairsObserved {
	out := RepairsObserved{Pending: begun, Running: begun}
	for i := range rows {
		row := &rows[i]
		name := row.Ref.String()
		switch {
		case row.Phase == engine.Drifted:
			if row.Reason.Code == CodeNeedsGrant && row.Parent != deploy.ManagedLayer {
				if out.Blocked = append(out.Blocked, name); len(out.Blocked) == 1 {
					out.Reason = row.Reason.Message
				}
			}
		case staged[row.Ref] != "" && row.Phase == engine.Waiting && !row.Delete && row.ConvergedGen == row.Generation:
			if out.Staged = append(out.Staged, name); len(out.Staged) == 1 {
				out.Component = staged[row.Ref]
			}
		case !admitted[row.Ref] && !(r.Grant != "" && slices.Contains(r.Names, name)), row.Delete, row.ConvergedGen != row.Generation:
		case row.Phase == engine.Acting:
			out.Pending, out.Running = true, true
		case row.Phase == engine.Failed:
			out.Failed = append(out.Failed, name)
		case row.Phase == engine.Verifying, row.Phase == engine.Retrying, row.Phase == engine.Waiting, row.Phase == engine.Pending:
			out.Pending = true
		}
	}
	slices.Sort(out.Blocked)
	slices.Sort(out.Staged)
	return out
}

// RepairRef reads the name that RepairsObserved gives a resource.
func RepairRef(name string) engine.Ref {
	kind, id, _ := strings.Cut(name, "/")
	return engine.Ref{Kind: kind, ID: id}
}
