package drift

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/status"
)

// NodeStatus is where a node is, in one word.
type NodeStatus string

// The statuses of a node, the ones that need somebody first.
const (
	NodePaused    NodeStatus = "paused"
	NodeOffline   NodeStatus = "offline"
	NodeComparing NodeStatus = "comparing"
	NodeOnline    NodeStatus = "online"
	NodeRetired   NodeStatus = "retired"
	NodeUnknown   NodeStatus = "not-registered"
)

// Status of a node.
func (n *Node) Status() NodeStatus {
	switch {
	case n.RetiredAt != 0:
		return NodeRetired
	case n.RegisteredAt == 0:
		return NodeUnknown
	case n.Paused != nil:
		return NodePaused
	case !n.Online:
		return NodeOffline
	case n.Compare:
		return NodeComparing
	}
	return NodeOnline
}

// NodeRow is a node in a list.
type NodeRow struct {
	Name       string         `json:"name"`
	Status     NodeStatus     `json:"status"`
	Since      clock.Instant  `json:"since,omitempty"` // it is online, or offline
	Why        string         `json:"why,omitempty"`   // it is offline, or paused
	Driver     string         `json:"driver,omitempty"`
	Version    string         `json:"version,omitempty"`
	Legs       map[Status]int `json:"legs"` // by push status
	Drift      map[string]int `json:"drift"`
	Conflicts  int            `json:"conflicts"`
	ToAdopt    int            `json:"toAdopt"`
	ComparedAt clock.Instant  `json:"comparedAt,omitempty"`
	Problem    string         `json:"problem,omitempty"` // why its newest snapshot, or a connection, was refused
	Needs      []string       `json:"needs"`             // what it needs a person for
	// Summary is the worst of all that; Status alone is its presence.
	Summary status.Summary `json:"summary"`

	undecided   int           // episodes
	unreadSince clock.Instant // as Node.UnreadSince
}

// NodeDetail is a node with all that concerns it.
type NodeDetail struct {
	NodeRow
	Registered  clock.Instant          `json:"registeredAt"`
	Session     uint64                 `json:"session"`
	Instance    string                 `json:"instance,omitempty"`
	Machine     string                 `json:"machine,omitempty"` // as the node claims
	Placed      string                 `json:"placed,omitempty"`  // as an operator said
	Reported    int                    `json:"reported"`
	Paused      *Pause                 `json:"paused,omitempty"`
	Collections []event.NodeCollection `json:"collections"`
	Objects     []LegRow               `json:"objects"`
	Episodes    []EpisodeRow           `json:"episodes"`
	Adoption    *Adoption              `json:"adoption,omitempty"`
}

// LegRow is a leg with its push status.
type LegRow struct {
	Kind        string        `json:"kind"`
	Name        string        `json:"name"`
	Role        string        `json:"role"`
	Node        string        `json:"node"`
	ID          string        `json:"id"`
	Status      Status        `json:"status"`
	Removed     bool          `json:"removed,omitempty"` // it is to be deleted
	Code        string        `json:"code,omitempty"`
	Error       string        `json:"error,omitempty"`
	Attempts    int           `json:"attempts,omitempty"`
	FailedSince clock.Instant `json:"failedSince,omitempty"`
	Version     uint64        `json:"version,omitempty"` // that the node acknowledged
	PushedAt    clock.Instant `json:"pushedAt,omitempty"`
	Effect      string        `json:"effect,omitempty"`
	Detail      string        `json:"detail,omitempty"`
	Wait        *Wait         `json:"wait,omitempty"`
	Episode     string        `json:"episode,omitempty"`
	Drift       string        `json:"drift,omitempty"`
	Decided     bool          `json:"decided,omitempty"` // what becomes of the drift
	// Summary is how the leg is; Status alone is its push.
	Summary status.Summary `json:"summary"`
}

// ObjectRow is an object in a list.
type ObjectRow struct {
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Version   uint64        `json:"version"`
	Mode      string        `json:"mode,omitempty"`
	Status    Status        `json:"status"`          // the worst of its legs
	Local     bool          `json:"local,omitempty"` // a node has it, by this name, and the server does not know it
	Removed   bool          `json:"removed,omitempty"`
	InBin     bool          `json:"inBin,omitempty"`
	ChangedAt clock.Instant `json:"changedAt"`
	Legs      []LegRow      `json:"legs"`
	// Summary is the worst of its legs.
	Summary status.Summary `json:"summary"`
}

// ObjectDetail is an object with its definition and history.
type ObjectDetail struct {
	ObjectRow
	Definition nodeconfig.Definition `json:"definition"`
	History    []Revision            `json:"history"`
	// Inconsistent are fields that its legs should share, and have in different ways on
	// their nodes.
	Inconsistent []Inconsistency `json:"inconsistent"`
	// Respelt are fields that a node has otherwise than they were asked for, by its word that it spells them so.
	Respelt []Respelling `json:"respelt"`
	Ports   []string     `json:"ports,omitempty"` // that something else listens on, as its node has it or claims
}

// Inconsistency is a field that legs of one object have in different ways.
type Inconsistency struct {
	Field  string            `json:"field"`
	Values map[string]string `json:"values"` // by role
}

// Respelling is a field of a leg whose last push was acknowledged with another value: whether both mean the same, the server
// has by the node's word alone. Actual is empty where the node does not have the field.
type Respelling struct {
	Role      string `json:"role"`
	Node      string `json:"node"`
	Field     string `json:"field"`
	Requested string `json:"requested"`
	Actual    string `json:"actual,omitempty"`
}

// EpisodeRow is an open episode of drift.
type EpisodeRow struct {
	ID        string        `json:"id"`
	Node      string        `json:"node"`
	Kind      string        `json:"kind"`
	ObjectID  string        `json:"objectId"`
	Name      string        `json:"name,omitempty"`
	Role      string        `json:"role,omitempty"`
	Drift     string        `json:"drift"`
	Conflict  bool          `json:"conflict,omitempty"`
	Decided   bool          `json:"decided,omitempty"`
	OpenedAt  clock.Instant `json:"openedAt"`
	ChangedAt clock.Instant `json:"changedAt"`
	Fields    int           `json:"fields"` // that differ
	Actions   []string      `json:"actions"`
	// Summary is how the episode is.
	Summary status.Summary `json:"summary"`
}

// EpisodeDetail is an episode with both sides, and what was acknowledged last.
type EpisodeDetail struct {
	EpisodeRow
	ETag         string          `json:"etag,omitempty"`
	Acknowledged json.RawMessage `json:"acknowledged,omitempty"`
	Desired      json.RawMessage `json:"desired,omitempty"`
	Actual       json.RawMessage `json:"actual,omitempty"`
	Table        []Field         `json:"table"`
}

// Field is a field by who has it how; nil where it is not set.
type Field struct {
	Field        string     `json:"field"`
	Acknowledged *string    `json:"acknowledged"`
	Desired      *string    `json:"desired"`
	Actual       *string    `json:"actual"`
	Cause        diff.Cause `json:"cause,omitempty"` // who changed it, if it differs
	Ignored      bool       `json:"ignored,omitempty"`
	Rule         string     `json:"rule,omitempty"` // of an operator that has it be ignored; else the device changes it by itself
	Secret       bool       `json:"secret,omitempty"`
}

// NodeNames lists the nodes, and those that objects name and that never registered.
func (s *State) NodeNames() []string {
	names := maps.Clone(s.legs)
	for name := range s.Nodes { // order-free: it fills a map
		if names[name] == nil {
			names[name] = nil
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// NodeRow returns the row of a node.
func (s *State) NodeRow(name string) NodeRow {
	n := s.Nodes[name]
	if n == nil {
		n = &Node{Name: name}
	}
	row := NodeRow{Name: name, Status: n.Status(), Since: n.Since, Why: n.Why, Driver: n.Driver, Version: n.Version, ComparedAt: n.ComparedAt,
		Legs: map[Status]int{}, Drift: map[string]int{}, Problem: cmp.Or(n.Refusal, n.RefusedFor), unreadSince: cmp.Or(n.UnreadSince, n.Since)}
	if n.Paused != nil {
		row.Why = n.Paused.Detail
	}
	for _, r := range s.legs[name] { // order-free: it only counts
		if _, _, l := s.leg(r); l.BinnedUntil == 0 {
			row.Legs[l.PushStatus()]++
		}
	}
	for _, e := range n.Episodes { // order-free: it only counts
		row.Drift[e.Drift]++
		switch {
		case e.Decided:
		case e.Conflict:
			row.Conflicts++
		default:
			row.undecided++
		}
	}
	if n.Adoption != nil {
		row.ToAdopt = len(n.Adoption.Objects)
	}
	row.Summary = row.summary()
	row.Needs = []string{}
	for _, x := range row.needs() {
		row.Needs = append(row.Needs, x.Word+": "+x.Reason)
	}
	return row
}

// NodeDetail returns a node with all that concerns it.
func (s *State) NodeDetail(name string, now clock.Instant) (NodeDetail, error) {
	n := s.Nodes[name]
	if n == nil && len(s.legs[name]) == 0 {
		return NodeDetail{}, refuse(CodeUnknown, "there is no node %q; steady node list shows those that have registered", name)
	}
	d := NodeDetail{NodeRow: s.NodeRow(name), Collections: []event.NodeCollection{}, Objects: []LegRow{}, Episodes: []EpisodeRow{}}
	for _, r := range s.legsOf(name) {
		o, _, _ := s.leg(r)
		d.Objects = append(d.Objects, s.legRow(o, r.role, now))
	}
	if n == nil {
		return d, nil
	}
	d.Registered, d.Session, d.Instance, d.Machine, d.Reported, d.Paused, d.Adoption = n.RegisteredAt, n.Session, n.Instance, n.Machine, n.Reported, n.Paused, n.Adoption
	d.Collections = append(d.Collections, n.Collections...)
	for _, key := range slices.Sorted(maps.Keys(n.Episodes)) {
		d.Episodes = append(d.Episodes, n.Episodes[key].row())
	}
	return d, nil
}

func (s *State) legRow(o *Object, role string, now clock.Instant) LegRow {
	d, l := o.Definition.Leg(role), o.Legs[role]
	row := LegRow{Kind: o.Kind, Name: o.Name, Role: role, Node: d.Node, ID: d.ID, Status: l.PushStatus(), Removed: o.Removed, Code: l.Code, Error: l.Error, Attempts: l.Attempts,
		FailedSince: l.FailedSince, Effect: l.Effect, Detail: l.Detail, Wait: s.Waits(o, role, now)}
	if o.Anonymous {
		row.Name = ""
	}
	if l.Acked != nil {
		row.Version, row.PushedAt = l.Acked.Version, l.Acked.At
	}
	if n := s.Nodes[d.Node]; n != nil {
		if e := n.Episodes[Key(o.Kind, d.ID)]; e != nil {
			row.Episode, row.Drift, row.Decided = e.Episode, e.Drift, e.Decided
		}
	}
	row.Summary = row.summary()
	return row
}

// worst orders statuses, the worst first.
var worst = []Status{Failed, Pending, Pushing, Pushed}

func (s *State) objectRow(o *Object, now clock.Instant) ObjectRow {
	row := ObjectRow{Kind: o.Kind, Name: o.Name, Version: o.Version, Mode: o.Definition.Mode, Status: Pushed, Removed: o.Removed, InBin: o.binned(), ChangedAt: o.ChangedAt}
	for i := range o.Definition.Legs {
		l := s.legRow(o, o.Definition.Legs[i].Role, now)
		row.Legs = append(row.Legs, l)
		if slices.Index(worst, l.Status) < slices.Index(worst, row.Status) {
			row.Status = l.Status
		}
	}
	row.Summary = row.summary()
	return row
}

// ObjectRows lists the objects of a kind, or of all, by name: those that the server knows, and those
// that nodes have and it does not.
func (s *State) ObjectRows(kind string, now clock.Instant) []ObjectRow {
	out := []ObjectRow{}
	for _, o := range s.Objects { // order-free: sorted below
		if !o.Anonymous && (kind == "" || o.Kind == kind) {
			out = append(out, s.objectRow(o, now))
		}
	}
	for _, n := range s.Nodes { // order-free: sorted below
		out = append(out, s.localRows(n, kind)...)
	}
	slices.SortFunc(out, func(a, b ObjectRow) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Legs[0].Node, b.Legs[0].Node))
	})
	return out
}

// ObjectDetail returns an object.
func (s *State) ObjectDetail(kind, name string, now clock.Instant) (ObjectDetail, error) {
	o, err := s.object(kind, name)
	if err != nil {
		return ObjectDetail{}, err
	}
	out := ObjectDetail{ObjectRow: s.objectRow(o, now), Definition: o.Definition, History: o.History, Inconsistent: s.inconsistent(o), Respelt: s.respelt(o)}
	if !o.Removed {
		used, claimed := s.PortConflicts(kind, name, o.Definition, nil)
		out.Ports = append(used, claimed...)
	}
	return out, nil
}

// respelt lists what nodes acknowledged and have otherwise. Secrets are left out: a digest is no spelling.
func (s *State) respelt(o *Object) []Respelling {
	out := []Respelling{}
	for i := range o.Definition.Legs {
		d := &o.Definition.Legs[i]
		l := o.Legs[d.Role]
		if l == nil || l.Acked == nil || l.Status != Pushed || bytes.Equal(l.Acked.Desired, l.Acked.Observed) {
			continue
		}
		rules := s.RulesOf(d.Node, o.Kind, o.Name)
		for _, x := range rules.Compare(l.Acked.Desired, l.Acked.Observed, nil) {
			if x.Desired != "" && !rules.Withholds(x.Field) && !strings.HasPrefix(x.Observed, nodeconfig.KeyedPrefix) {
				out = append(out, Respelling{d.Role, d.Node, x.Field, x.Desired, x.Observed})
			}
		}
	}
	return out
}

// inconsistent lists the fields that legs should share and have in different ways, as far as
// the server knows what their nodes have.
func (s *State) inconsistent(o *Object) []Inconsistency {
	out := []Inconsistency{}
	if len(o.Definition.Shared) == 0 {
		return out
	}
	shared := (&nodeconfig.Rules{}).Form(o.Definition.Shared)
	for _, field := range slices.Sorted(maps.Keys(shared)) {
		values, distinct := map[string]string{}, map[string]bool{}
		for i := range o.Definition.Legs {
			d := &o.Definition.Legs[i]
			if v, there := s.observed(o, d)[field]; there {
				values[d.Role], distinct[v] = v, true
			}
		}
		if len(distinct) > 1 {
			out = append(out, Inconsistency{field, values})
		}
	}
	return out
}

// observed is the form of what a node is known to have of a leg.
func (s *State) observed(o *Object, d *nodeconfig.Leg) diff.Form {
	rules := s.RulesOf(d.Node, o.Kind, o.Name)
	if n := s.Nodes[d.Node]; n != nil {
		if e := n.Episodes[Key(o.Kind, d.ID)]; e != nil && len(e.Actual) > 0 {
			return rules.Form(e.Actual)
		}
	}
	if a := o.Legs[d.Role].Acked; a != nil {
		return rules.Form(a.Observed)
	}
	return nil
}

func (e *Episode) row() EpisodeRow {
	actions := []string{}
	if !e.Decided {
		actions = append(actions, ActionsFor(e.Drift)...)
	}
	row := EpisodeRow{ID: e.Episode, Node: e.Node, Kind: e.Kind, ObjectID: e.Drifted.ID, Name: e.Name, Role: e.Role, Drift: e.Drift, Conflict: e.Conflict, Decided: e.Decided,
		OpenedAt: e.OpenedAt, ChangedAt: e.ChangedAt, Fields: len(e.Differences) + e.More, Actions: actions}
	row.Summary = row.summary()
	return row
}

// EpisodeRows lists the open episodes, the oldest first.
func (s *State) EpisodeRows() []EpisodeRow {
	out := []EpisodeRow{}
	for _, n := range s.Nodes { // order-free: sorted below
		for _, e := range n.Episodes { // order-free: sorted below
			out = append(out, e.row())
		}
	}
	slices.SortFunc(out, func(a, b EpisodeRow) int {
		return cmp.Or(cmp.Compare(a.OpenedAt, b.OpenedAt), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// EpisodeDetail returns an open episode.
func (s *State) EpisodeDetail(id string) (EpisodeDetail, error) {
	e := s.Episode(id)
	if e == nil {
		return EpisodeDetail{}, refuse(CodeUnknown, "there is no open episode %q; steady drift list shows those that are open", id)
	}
	d := EpisodeDetail{EpisodeRow: e.row(), ETag: e.ETag, Actual: e.Actual}
	if o := s.Objects[Key(e.Kind, e.Name)]; o != nil && e.Name != "" {
		if !o.Removed {
			d.Desired = o.Definition.Config(o.Definition.Leg(e.Role))
		}
		if a := o.Legs[e.Role].Acked; a != nil {
			d.Acknowledged = a.Observed
		}
	}
	d.Table = table(s.RulesOf(e.Node, e.Kind, e.Name), d.Acknowledged, d.Desired, d.Actual, e.Differences)
	for i := range d.Table {
		if f := &d.Table[i]; f.Ignored {
			f.Rule = s.ruleFor(e, f.Field)
		}
	}
	return d, nil
}

// ruleFor is the rule of an operator that has a field be no drift, or "".
func (s *State) ruleFor(e *Episode, field string) string {
	for _, id := range slices.Sorted(maps.Keys(s.Rules)) {
		x := s.Rules[id]
		if x.Field != "" && x.covers(e.Node, e.Kind, e.Name) && (&nodeconfig.Rules{Ignored: []string{x.Field}}).Ignores(field) {
			return id
		}
	}
	return ""
}

// table lines up what was acknowledged, is desired, and is there, field by field.
func table(rules *nodeconfig.Rules, acked, desired, actual json.RawMessage, differences []diff.Difference) []Field {
	sides := [3]diff.Form{}
	all := map[string]bool{}
	for i, raw := range []json.RawMessage{acked, desired, actual} {
		if len(raw) > 0 {
			sides[i] = rules.Form(raw)
		}
		for f := range sides[i] { // order-free: it fills a set
			all[f] = true
		}
	}
	value := func(side int, field string) *string {
		if v, there := sides[side][field]; there {
			return &v
		}
		return nil
	}
	out := []Field{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := Field{Field: name, Acknowledged: value(0, name), Desired: value(1, name), Actual: value(2, name), Ignored: rules.Ignores(name), Secret: rules.Withholds(name)}
		if i := slices.IndexFunc(differences, func(d diff.Difference) bool { return d.Field == name }); i >= 0 {
			f.Cause = differences[i].Cause
		}
		out = append(out, f)
	}
	return out
}

// Describe is an episode in a sentence.
func (e EpisodeRow) Describe() string {
	what := fmt.Sprintf("%s %s", e.Kind, strings.TrimSpace(cmp.Or(e.Name, e.ObjectID)+" "+strings.TrimPrefix(e.Role, e.Kind)))
	switch e.Drift {
	case Extraneous:
		return fmt.Sprintf("node %s has the %s %q, which the server does not know", e.Node, e.Kind, e.ObjectID)
	case Missing:
		return fmt.Sprintf("node %s does not have %s any more", e.Node, what)
	}
	if e.Conflict {
		return fmt.Sprintf("node %s and the server both have another %s than before", e.Node, what)
	}
	return fmt.Sprintf("node %s has %s with other values", e.Node, what)
}
