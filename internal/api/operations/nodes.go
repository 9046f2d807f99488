package operations

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/nodesdk"
)

type (
	nodePath struct {
		AtRecord
		Node string `path:"node" maxLength:"63"`
	}
	nodeIn[B any] struct {
		Node string `path:"node" maxLength:"63"`
		Body B
	}
	nodeVerbIn struct {
		Node string `path:"node" maxLength:"63"`
		Verb string `path:"verb" enum:"reconcile,dismiss"`
		Body struct {
			Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
		}
	}
	nodeListIn struct {
		AtRecord
		Search string           `query:"search" maxLength:"63" doc:"A part of the name"`
		Status drift.NodeStatus `query:"status" enum:"paused,offline,comparing,online,retired,not-registered,"`
		Needs  bool             `query:"needs" doc:"Only those that need a person"`
		Cut
	}
	objectsPath struct {
		AtRecord
		Kind string `path:"kind" maxLength:"40" doc:"A kind of objects, such as flow"`
	}
	objectListIn struct {
		AtRecord
		Kind string `path:"kind" maxLength:"40" doc:"A kind of objects, such as flow"`
		ObjectFilter
		Cut
	}
	allObjectsIn struct {
		AtRecord
		Kind string `query:"kind" maxLength:"40" doc:"Only those of this kind"`
		ObjectFilter
		Cut
	}
	// ObjectFilter leaves some of the objects in a list. It is embedded in inputs, which takes an exported name.
	ObjectFilter struct {
		Search string       `query:"search" maxLength:"63" doc:"A part of the name, or of that of one of its nodes"`
		Status drift.Status `query:"status" enum:"pending,pushing,pushed,failed,extraneous," doc:"Push status, the worst of all legs; extraneous is what a node has and the server does not know"`
	}
	// ObjectPath is embedded in inputs, which takes an exported name.
	ObjectPath struct {
		Kind string `path:"kind" maxLength:"40" doc:"A kind of objects, such as flow"`
		Name string `path:"name" maxLength:"63"`
	}
	objectIn[B any] struct {
		ObjectPath
		Body B
	}
	showObjectIn struct {
		AtRecord
		ObjectPath
	}
	removeObjectIn struct {
		ObjectPath
		Reason string `query:"reason" maxLength:"1000" doc:"Why, for the log"`
	}
	// DriftFilter is embedded in inputs.
	DriftFilter struct {
		Node  string `query:"node" maxLength:"63"`
		Kind  string `query:"kind" maxLength:"63"`
		Name  string `query:"name" maxLength:"200"`
		Drift string `query:"drift" enum:"extraneous,missing,mismatched,"`
	}
	driftIn struct {
		AtRecord
		DriftFilter
	}
	driftListIn struct {
		AtRecord
		DriftFilter
		Cut
	}
	episodePath struct {
		AtRecord
		ID string `path:"id" maxLength:"64"`
	}
)

// big is an operation whose body may have the configs of many objects.
func big(id, method, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, MaxBodyBytes: 2 << 20}
}

// nodes registers the routes of nodes, of the objects that they have, and of drift.
func (h *Handler) nodes() {
	add(h, get("list-nodes", "/nodes", "List the nodes"), viewing, viewNodes(h, func(s *drift.State, c source, _ *AtRecord) ([]drift.NodeRow, error) {
		return nodeRows(s), nil
	}))
	add(h, get("page-nodes", "/node-list", "List a page of the nodes that filters leave"), viewing, viewNodes(h, func(s *drift.State, c source, in *nodeListIn) (operator.Page[drift.NodeRow], error) {
		return pageOf(in.Cut, slices.DeleteFunc(nodeRows(s), func(n drift.NodeRow) bool {
			return !strings.Contains(n.Name, in.Search) || in.Status != "" && n.Status != in.Status || in.Needs && len(n.Needs) == 0
		})), nil
	}))
	add(h, get("show-node", "/nodes/{node}", "Show one node"), viewing, viewNodes(h, func(s *drift.State, c source, in *nodePath) (drift.NodeDetail, error) {
		return s.NodeDetail(in.Node, c.Now())
	}))
	do(h, post("operate-node", "/nodes/{node}/{verb}", "Compare a node now, or decide about its new objects one by one"), operating, h.operateNode)
	do(h, post("resume-node", "/nodes/{node}/resume", "Have a paused node go on"), operating, func(ctx context.Context, in *nodeIn[operator.Resume]) error {
		return h.edit(ctx, drift.Resume{Node: in.Node, Push: in.Body.Push}, in.Body.Reason)
	})
	add(h, post("push-node", "/nodes/{node}/push", "Push what of a node is pending or failed now"), operating, func(ctx context.Context, in *nodeIn[operator.PushNow]) ([]drift.PushOutcome, error) {
		return h.pushNow(ctx, drift.PushNow{Node: in.Node}, in.Body)
	})
	do(h, post("retire-node", "/nodes/{node}/retire", "End the identity of a node"), admin, func(ctx context.Context, in *nodeIn[operator.Verb]) error {
		return h.edit(ctx, drift.Retire{Node: in.Node}, in.Body.Reason)
	})
	do(h, post("place-node", "/nodes/{node}/machine", "Say on which machine a node is: nodes of one share its ports"), operating, func(ctx context.Context, in *nodeIn[operator.PlaceNode]) error {
		return h.edit(ctx, drift.Place{Node: in.Node, Machine: in.Body.Machine}, in.Body.Reason)
	})
	add(h, big("adopt-objects", http.MethodPost, "/nodes/{node}/adopt", "Ingest objects of a node that wait for it"), operating, h.adopt)
	add(h, get("list-kinds", "/object-kinds", "List the kinds of objects that nodes have"), viewing, viewNodes(h, func(s *drift.State, _ source, _ *AtRecord) ([]drift.KindRow, error) {
		return s.KindRows(), nil
	}))
	add(h, get("page-all-objects", "/object-list", "List a page of the objects of all kinds that filters leave"), viewing, viewNodes(h, func(s *drift.State, c source, in *allObjectsIn) (operator.Page[drift.ObjectRow], error) {
		return pageOf(in.Cut, objectRows(s, in.Kind, in.Search, in.Status, c.Now())), s.CheckKind(in.Kind)
	}))
	add(h, get("list-objects", "/config/{kind}", "List the objects of a kind with the push status of each leg"), viewing, viewNodes(h, func(s *drift.State, c source, in *objectsPath) ([]drift.ObjectRow, error) {
		return s.ObjectRows(in.Kind, c.Now()), s.CheckKind(in.Kind)
	}))
	add(h, get("page-objects", "/config-list/{kind}", "List a page of the objects of a kind that filters leave"), viewing, viewNodes(h, func(s *drift.State, c source, in *objectListIn) (operator.Page[drift.ObjectRow], error) {
		return pageOf(in.Cut, objectRows(s, in.Kind, in.Search, in.Status, c.Now())), s.CheckKind(in.Kind)
	}))
	add(h, get("show-object", "/config/{kind}/{name}", "Show one object with its history"), viewing, viewNodes(h, func(s *drift.State, c source, in *showObjectIn) (drift.ObjectDetail, error) {
		return s.ObjectDetail(in.Kind, in.Name, c.Now())
	}))
	add(h, big("set-object", http.MethodPut, "/config/{kind}/{name}", "Create or change an object"), operating, h.setObject)
	add(h, big("preview-object", http.MethodPost, "/config/{kind}/{name}/preview", "Say what setting an object would come to"), viewing, h.previewObject)
	do(h, big("remove-object", http.MethodDelete, "/config/{kind}/{name}", "Have every node delete an object"), operating, func(ctx context.Context, in *removeObjectIn) error {
		return h.edit(ctx, drift.Remove{Kind: in.Kind, Name: in.Name}, in.Reason)
	})
	add(h, post("push-object", "/config/{kind}/{name}/push", "Push what of an object is pending or failed now"), operating, func(ctx context.Context, in *objectIn[operator.PushNow]) ([]drift.PushOutcome, error) {
		return h.pushNow(ctx, drift.PushNow{Kind: in.Kind, Name: in.Name}, in.Body)
	})
	do(h, post("restore-object", "/config/{kind}/{name}/restore", "Take an object out of the bin"), operating, func(ctx context.Context, in *objectIn[operator.Verb]) error {
		return h.edit(ctx, drift.Unbin{Kind: in.Kind, Name: in.Name}, in.Body.Reason)
	})
	h.drift()
}

// drift registers the routes of drift.
func (h *Handler) drift() {
	add(h, get("list-drift", "/drift", "List the open episodes of drift, the oldest first"), viewing, viewNodes(h, func(s *drift.State, c source, in *driftIn) ([]drift.EpisodeRow, error) {
		return episodes(s, in.query()), nil
	}))
	add(h, get("page-drift", "/drift-list", "List a page of the open episodes of drift, the oldest first"), viewing, viewNodes(h, func(s *drift.State, c source, in *driftListIn) (operator.Page[drift.EpisodeRow], error) {
		return pageOf(in.Cut, episodes(s, in.query())), nil
	}))
	add(h, get("show-drift", "/drift/{id}", "Show an episode: what was acknowledged, is desired and is there, field by field"), viewing, viewNodes(h, func(s *drift.State, c source, in *episodePath) (drift.EpisodeDetail, error) {
		return s.EpisodeDetail(in.ID)
	}))
	add(h, big("resolve-drift", http.MethodPost, "/drift/{id}/resolve", "Decide about an episode"), operating, h.resolve)
	add(h, big("resolve-many", http.MethodPost, "/drift-resolutions", "Decide about many episodes, each by itself"), operating, h.resolveMany)
	add(h, get("list-resolutions", "/drift-resolutions", "List the newest decisions about drift"), viewing, viewNodes(h, func(s *drift.State, c source, _ *AtRecord) ([]drift.Resolution, error) {
		out := append([]drift.Resolution{}, s.Resolutions...)
		slices.Reverse(out)
		return out, nil
	}))
	do(h, post("undo-resolution", "/drift-resolutions/{id}/undo", "Take a decision about drift back"), operating, func(ctx context.Context, in *idIn[operator.Verb]) error {
		return h.edit(ctx, drift.Undo{Resolution: in.ID}, in.Body.Reason)
	})
	h.ignoring()
}

// ignoring registers the routes of what is no drift.
func (h *Handler) ignoring() {
	add(h, get("list-ignored", "/drift-ignored", "List what is no drift"), viewing, viewNodes(h, func(s *drift.State, c source, _ *AtRecord) ([]operator.Ignored, error) {
		out := []operator.Ignored{}
		for _, r := range s.Rules { // order-free: sorted below
			out = append(out, operator.Ignored{DriftIgnored: r.DriftIgnored, At: r.At})
		}
		slices.SortFunc(out, func(a, b operator.Ignored) int {
			return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.Rule, b.Rule))
		})
		return out, nil
	}))
	add(h, post("ignore-drift", "/drift-ignored", "Have fields be no drift, and not pushed, for a while"), operating, func(ctx context.Context, in *bodyIn[operator.IgnoreDrift]) (operator.Ignored, error) {
		b := in.Body
		out := operator.Ignored{DriftIgnored: event.DriftIgnored{Rule: newName(), Node: b.Node, Kind: b.Kind, Name: b.Name, Field: b.Field, Until: b.Until, Actor: actor(ctx), Reason: b.Reason}, At: h.c.Now()}
		return out, h.edit(ctx, drift.Ignore{DriftIgnored: out.DriftIgnored}, b.Reason)
	})
	do(h, huma.Operation{OperationID: "unignore-drift", Method: http.MethodDelete, Path: "/drift-ignored/{id}", Summary: "End such a rule"}, operating, func(ctx context.Context, in *idPath) error {
		return h.edit(ctx, drift.Unignore{Rule: in.ID}, "")
	})
}

// newName draws a short name that no other decision has.
func newName() string { return strings.ToLower(rand.Text()[:12]) }

// edit commits a decision about nodes.
func (h *Handler) edit(ctx context.Context, e drift.Edit, reason string) error {
	_, err := h.c.EditNodes(ctx, e, drift.By{Actor: actor(ctx), Reason: reason})
	return err
}

// viewNodes makes a handler that answers from the state of nodes, of today or at a record.
func viewNodes[I, T any, P interface {
	*I
	record() *AtRecord
}](h *Handler, read func(*drift.State, source, *I) (T, error)) func(context.Context, *I) (T, error) {
	return func(ctx context.Context, in *I) (out T, err error) {
		c, err := h.at(ctx, P(in).record())
		if err != nil {
			return out, err
		}
		var failed error
		if err = c.ViewNodes(ctx, func(s *drift.State) { out, failed = read(s, c, in) }); err == nil {
			err = h.c.NodeRefusal(failed)
		}
		return out, err
	}
}

func (h *Handler) operateNode(ctx context.Context, in *nodeVerbIn) error {
	if in.Verb == "dismiss" {
		return h.edit(ctx, drift.Dismiss{Node: in.Node}, in.Body.Reason)
	}
	return h.edit(ctx, drift.Reconcile{Node: in.Node}, in.Body.Reason)
}

// pushNow says of each leg what became of it as its push was asked for.
func (h *Handler) pushNow(ctx context.Context, push drift.PushNow, b operator.PushNow) (out []drift.PushOutcome, err error) {
	var failed error
	err = h.c.ViewNodes(ctx, func(s *drift.State) { out, failed = s.PushOutcomes(push, h.c.Now()) })
	if err = cmp.Or(err, h.c.NodeRefusal(failed)); err != nil || b.DryRun {
		return out, err
	}
	return out, h.edit(ctx, push, b.Reason)
}

func (h *Handler) setObject(ctx context.Context, in *objectIn[operator.SetObject]) (out operator.ObjectSet, err error) {
	b := in.Body
	events, err := h.c.EditNodes(ctx, drift.Set{Kind: in.Kind, Name: in.Name, Definition: b.Definition, Version: b.Version, Create: b.Create, AllowPorts: b.AllowPortConflict},
		drift.By{Actor: actor(ctx), Reason: b.Reason})
	if err != nil {
		return out, err
	}
	out.Unchanged = true
	for _, ev := range events {
		switch ev.(type) {
		case event.ConfigSet:
			out.Unchanged = false
		case event.PushRequested:
			out.Requested++
		}
	}
	var failed error
	if err = h.c.ViewNodes(ctx, func(s *drift.State) { out.ObjectDetail, failed = s.ObjectDetail(in.Kind, in.Name, h.c.Now()) }); err == nil {
		err = h.c.NodeRefusal(failed)
	}
	return out, err
}

func (h *Handler) previewObject(ctx context.Context, in *objectIn[operator.SetObject]) (out operator.ObjectPreview, err error) {
	b := in.Body
	set := drift.Set{Kind: in.Kind, Name: in.Name, Definition: b.Definition, Version: b.Version, Create: b.Create, AllowPorts: true}
	var failed error
	err = h.c.ViewNodes(ctx, func(s *drift.State) {
		if out.Definition, failed = s.Check(set); failed != nil {
			return
		}
		out.New = s.Objects[drift.Key(in.Kind, in.Name)] == nil
		used, claimed := s.PortConflicts(in.Kind, in.Name, out.Definition, s.Objects[drift.Key(in.Kind, in.Name)])
		out.Ports = append(append([]string{}, used...), claimed...)
		out.Legs = []operator.LegPreview{}
		for i := range out.Definition.Legs {
			l := &out.Definition.Legs[i]
			fields, wait := s.Preview(in.Kind, in.Name, &out.Definition, l, h.c.Now())
			out.Legs = append(out.Legs, operator.LegPreview{Role: l.Role, Node: l.Node, Fields: fields, Wait: wait})
		}
	})
	if err = cmp.Or(err, h.c.NodeRefusal(failed)); err != nil {
		return out, err
	}
	who, _ := ctx.Value(actorKey{}).(control.Operator)
	for i := range out.Legs {
		if !operating.Admits(operator.Role(who.Role)) {
			out.Legs[i].Unasked = "the device is not asked for the role " + who.Role + ", since that may have it run something; the roles " + operating.Who() + " have it asked"
			continue
		}
		h.ask(ctx, in, &out.Definition, i, &out.Legs[i])
	}
	return out, nil
}

// Devices answer whether they would accept an object.
type Devices interface {
	Validate(ctx context.Context, node string, v nodesdk.Validate) (nodesdk.Validated, error)
}

// ValidateWith has previews ask the devices of nodes that are connected. Call it before serving.
func (h *Handler) ValidateWith(d Devices) { h.devices = d }

// deviceTimeout is how long a preview waits for one device.
const deviceTimeout = 5 * time.Second

// ask adds what the device says of a leg, which has it run something: that is an event of who asked. One that is away, or
// cannot tell, says nothing.
func (h *Handler) ask(ctx context.Context, in *objectIn[operator.SetObject], d *nodeconfig.Definition, leg int, out *operator.LegPreview) {
	if h.devices == nil {
		return
	}
	l := &d.Legs[leg]
	ctx, cancel := context.WithTimeout(ctx, deviceTimeout)
	defer cancel()
	if err := h.edit(ctx, drift.Query{Node: l.Node, Kind: in.Kind, Name: in.Name}, ""); err != nil {
		out.Unasked = "that it is asked cannot be logged: " + h.refusal(err).Detail
		return
	}
	v, err := h.devices.Validate(ctx, l.Node, nodesdk.Validate{Kind: in.Kind, ID: l.ID, Config: d.Config(l)})
	if err != nil || !v.Supported {
		return
	}
	out.Checked = true
	for _, p := range v.Problems {
		out.Problems = append(out.Problems, operator.DeviceProblem{Field: p.Field, Message: p.Message})
	}
}

func (f *DriftFilter) query() operator.DriftQuery {
	return operator.DriftQuery{Node: f.Node, Kind: f.Kind, Name: f.Name, Drift: f.Drift}
}

func nodeRows(s *drift.State) []drift.NodeRow {
	out := []drift.NodeRow{}
	for _, name := range s.NodeNames() {
		out = append(out, s.NodeRow(name))
	}
	return out
}

// objectRows are the objects of a kind, or of all for "", that filters leave.
func objectRows(s *drift.State, kind, search string, status drift.Status, now clock.Instant) []drift.ObjectRow {
	return slices.DeleteFunc(s.ObjectRows(kind, now), func(o drift.ObjectRow) bool {
		named := strings.Contains(o.Name, search) || slices.ContainsFunc(o.Legs, func(l drift.LegRow) bool { return strings.Contains(l.Node, search) })
		return !named || status != "" && o.Status != status
	})
}

func episodes(s *drift.State, q operator.DriftQuery) []drift.EpisodeRow {
	return slices.DeleteFunc(s.EpisodeRows(), func(e drift.EpisodeRow) bool {
		return q.Node != "" && e.Node != q.Node || q.Kind != "" && e.Kind != q.Kind || q.Name != "" && e.Name != q.Name && e.ObjectID != q.Name || q.Drift != "" && e.Drift != q.Drift
	})
}

func (h *Handler) resolve(ctx context.Context, in *idIn[operator.ResolveDrift]) (operator.Outcome, error) {
	return h.decide(ctx, in.ID, in.Body)
}

// decide decides about one episode.
func (h *Handler) decide(ctx context.Context, id string, b operator.ResolveDrift) (operator.Outcome, error) {
	out := operator.Outcome{Episode: id, Resolution: newName()}
	var detail drift.EpisodeDetail
	var failed error
	err := h.c.ViewNodes(ctx, func(s *drift.State) { detail, failed = s.EpisodeDetail(id) })
	if err = cmp.Or(err, h.c.NodeRefusal(failed)); err != nil {
		return out, err
	}
	out.What = detail.Describe()
	return out, h.edit(ctx, drift.Resolve{Episode: id, Action: b.Action, Resolution: out.Resolution, Fields: b.Fields, As: b.As, ETag: b.ETag}, b.Reason)
}

// resolveMany decides about episodes one after the other: what fails of one stops no other.
func (h *Handler) resolveMany(ctx context.Context, in *bodyIn[operator.ResolveMany]) ([]operator.Outcome, error) {
	b, out := in.Body, []operator.Outcome{}
	var rows []drift.EpisodeRow
	if err := h.c.ViewNodes(ctx, func(s *drift.State) { rows = episodes(s, b.DriftQuery) }); err != nil {
		return nil, err
	}
	for _, e := range rows {
		if len(b.Episodes) > 0 && !slices.Contains(b.Episodes, e.ID) {
			continue
		}
		o := operator.Outcome{Episode: e.ID, What: e.Describe()}
		switch {
		case !slices.Contains(e.Actions, b.Action):
			o.Error = b.Action + " is no way to resolve it"
		case !b.DryRun:
			done, err := h.decide(ctx, e.ID, operator.ResolveDrift{Action: b.Action, Reason: b.Reason})
			if o.Resolution = done.Resolution; err != nil {
				o.Resolution, o.Error = "", h.refusal(err).Detail
			}
		}
		out = append(out, o)
	}
	for _, id := range b.Episodes {
		if !slices.ContainsFunc(rows, func(e drift.EpisodeRow) bool { return e.ID == id }) {
			out = append(out, operator.Outcome{Episode: id, Error: "it is not open"})
		}
	}
	return out, nil
}

// adopt ingests what waits for it, and says of each what it became.
func (h *Handler) adopt(ctx context.Context, in *nodeIn[operator.Adopt]) ([]operator.Outcome, error) {
	events, err := h.c.EditNodes(ctx, drift.Adopt{Node: in.Node, Objects: in.Body.Objects, Resolution: newName()}, drift.By{Actor: actor(ctx), Reason: in.Body.Reason})
	if err != nil {
		return nil, err
	}
	out := []operator.Outcome{}
	for _, ev := range events {
		if r, is := ev.(event.DriftResolved); is {
			kind, _ := r.Object()
			out = append(out, operator.Outcome{What: kind + " " + r.ID + " is " + kind + " " + r.Name + " now", Resolution: r.Resolution})
		}
	}
	return out, nil
}
