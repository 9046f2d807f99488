package operator

import (
	"context"
	"net/http"
	"net/url"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// SetObject has an object of nodes be as defined.
type SetObject struct {
	nodeconfig.Definition
	// Version is the one that the change was made on; zero is whichever there is.
	Version uint64 `json:"version,omitempty"`
	// Create refuses an object that is there already.
	Create            bool   `json:"create,omitempty"`
	AllowPortConflict bool   `json:"allowPortConflict,omitempty"`
	Reason            string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
}

// ObjectSet is an object as it is defined now. Unchanged says that it was defined like that already;
// Requested, how many of its legs, which had failed, are pushed again all the same.
type ObjectSet struct {
	drift.ObjectDetail
	Unchanged bool `json:"unchanged,omitempty"`
	Requested int  `json:"requested,omitempty"`
}

// PushNow has what is pending or failed be pushed now.
type PushNow struct {
	DryRun bool   `json:"dryRun,omitempty" doc:"Push nothing, and say what would be"`
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
}

// ObjectPreview is what setting an object would come to.
type ObjectPreview struct {
	Definition nodeconfig.Definition `json:"definition"` // in normal form
	New        bool                  `json:"new"`
	Legs       []LegPreview          `json:"legs"`
	Ports      []string              `json:"ports"` // that something else uses
}

// LegPreview is what it would come to on one node.
type LegPreview struct {
	Role   string        `json:"role"`
	Node   string        `json:"node"`
	Fields []drift.Field `json:"fields"` // that would differ from what the node is known to have
	Wait   *drift.Wait   `json:"wait,omitempty"`
	// Checked says that the device was asked whether it would accept it; Problems are why not.
	Checked  bool            `json:"checked,omitempty"`
	Problems []DeviceProblem `json:"problems,omitempty"`
	// Unasked is why the device was not asked, where that is not its own doing.
	Unasked string `json:"unasked,omitempty"`
}

// DeviceProblem is what a device finds wrong with an object.
type DeviceProblem struct {
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Resume says how a paused node goes on.
type Resume struct {
	Push   bool   `json:"push,omitempty" doc:"Push again what the node lost; else what differs is reported as drift"`
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
}

// PlaceNode says on which machine a node is.
type PlaceNode struct {
	Machine string `json:"machine,omitempty" maxLength:"63" doc:"Its name; empty is that nothing is known"`
	Reason  string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
}

// Adopt names the objects of a node that are ingested; none is all that wait for it.
type Adopt struct {
	Objects []drift.ObjectRef `json:"objects,omitempty" maxItems:"10000"`
	Reason  string            `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
}

// ResolveDrift is a decision about an episode.
type ResolveDrift struct {
	Action string   `json:"action" enum:"repush,ingest,delete-node,delete-server"`
	Fields []string `json:"fields,omitempty" doc:"Of a repush: fields that stay as they are on the node"`
	As     string   `json:"as,omitempty" doc:"Of an ingest: the name of the object that it makes"`
	ETag   string   `json:"etag,omitempty" doc:"What was seen; another one is refused"`
	Reason string   `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
}

// ResolveMany is a decision about many episodes.
type ResolveMany struct {
	DriftQuery
	Episodes []string `json:"episodes,omitempty" maxItems:"10000" doc:"These alone, of those that the filters leave"`
	Action   string   `json:"action" enum:"repush,ingest,delete-node,delete-server"`
	DryRun   bool     `json:"dryRun,omitempty" doc:"Decide nothing, and say what would be"`
	Reason   string   `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
}

// DriftQuery picks episodes. What is empty leaves none out.
type DriftQuery struct {
	Node  string `json:"node,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Name  string `json:"name,omitempty"`
	Drift string `json:"drift,omitempty"`
}

// Outcome is what came of a decision about one episode.
type Outcome struct {
	Episode    string `json:"episode"`
	What       string `json:"what"` // in a sentence
	Resolution string `json:"resolution,omitempty"`
	Error      string `json:"error,omitempty"`
}

// IgnoreDrift has fields be no drift.
type IgnoreDrift struct {
	Node   string        `json:"node,omitempty"`
	Kind   string        `json:"kind,omitempty"`
	Name   string        `json:"name,omitempty"`
	Field  string        `json:"field,omitempty"`
	Until  clock.Instant `json:"until,omitempty"`
	Reason string        `json:"reason" maxLength:"1000" doc:"Why, for the log"`
}

// Ignored is a rule that has fields be no drift.
type Ignored struct {
	event.DriftIgnored
	At clock.Instant `json:"at"`
}

// Nodes lists the nodes.
func (c *Client) Nodes(ctx context.Context) (all []drift.NodeRow, err error) {
	return all, c.get(ctx, "/nodes", nil, &all)
}

// Node returns one node.
func (c *Client) Node(ctx context.Context, name string) (n drift.NodeDetail, err error) {
	return n, c.get(ctx, "/nodes/"+url.PathEscape(name), nil, &n)
}

// ReconcileNode has a node be read and compared now.
func (c *Client) ReconcileNode(ctx context.Context, name string) error {
	return c.operateNode(ctx, "reconcile", name, "asked for by command")
}

// DismissAdoption makes each object that waits to be adopted an episode of drift.
func (c *Client) DismissAdoption(ctx context.Context, name, reason string) error {
	return c.operateNode(ctx, "dismiss", name, reason)
}

// RetireNode ends the identity of a node.
func (c *Client) RetireNode(ctx context.Context, name, reason string) error {
	return c.operateNode(ctx, "retire", name, reason)
}

// PlaceNode says on which machine a node is.
func (c *Client) PlaceNode(ctx context.Context, name string, p PlaceNode) error {
	return c.post(ctx, "/nodes/"+url.PathEscape(name)+"/machine", p, nil)
}

func (c *Client) operateNode(ctx context.Context, verb, name, reason string) error {
	return c.post(ctx, "/nodes/"+url.PathEscape(name)+"/"+verb, Verb{Reason: reason}, nil)
}

// ResumeNode has a paused node go on.
func (c *Client) ResumeNode(ctx context.Context, name string, r Resume) error {
	return c.post(ctx, "/nodes/"+url.PathEscape(name)+"/resume", r, nil)
}

// AdoptObjects ingests objects of a node that wait for it.
func (c *Client) AdoptObjects(ctx context.Context, name string, a Adopt) (out []Outcome, err error) {
	return out, c.post(ctx, "/nodes/"+url.PathEscape(name)+"/adopt", a, &out)
}

func objectPath(kind, name string) string {
	return "/config/" + url.PathEscape(kind) + "/" + url.PathEscape(name)
}

// Kinds lists the kinds of objects that nodes have.
func (c *Client) Kinds(ctx context.Context) (all []drift.KindRow, err error) {
	return all, c.get(ctx, "/object-kinds", nil, &all)
}

// AllObjects lists the objects of all kinds.
func (c *Client) AllObjects(ctx context.Context) (all []drift.ObjectRow, err error) {
	for {
		var p Page[drift.ObjectRow]
		if err := c.get(ctx, "/object-list", page(nil, len(all), MaxPage), &p); err != nil {
			return nil, err
		}
		if all = append(all, p.Items...); len(p.Items) == 0 || len(all) >= p.Total {
			return all, nil
		}
	}
}

// Objects lists the objects of a kind.
func (c *Client) Objects(ctx context.Context, kind string) (all []drift.ObjectRow, err error) {
	return all, c.get(ctx, "/config/"+url.PathEscape(kind), nil, &all)
}

// Object returns one object.
func (c *Client) Object(ctx context.Context, kind, name string) (o drift.ObjectDetail, err error) {
	return o, c.get(ctx, objectPath(kind, name), nil, &o)
}

// SetObject sets an object, and returns it.
func (c *Client) SetObject(ctx context.Context, kind, name string, s SetObject) (o ObjectSet, err error) {
	return o, c.send(ctx, http.MethodPut, objectPath(kind, name), nil, s, &o)
}

// PreviewObject says what setting an object would come to.
func (c *Client) PreviewObject(ctx context.Context, kind, name string, s SetObject) (p ObjectPreview, err error) {
	return p, c.post(ctx, objectPath(kind, name)+"/preview", s, &p)
}

// RemoveObject has every node delete an object.
func (c *Client) RemoveObject(ctx context.Context, kind, name, reason string) error {
	q := url.Values{}
	if reason != "" {
		q.Set("reason", reason)
	}
	return c.send(ctx, http.MethodDelete, objectPath(kind, name), q, nil, nil)
}

// PushObject has what of an object is pending or failed be pushed now, and says what of each leg becomes.
func (c *Client) PushObject(ctx context.Context, kind, name string, p PushNow) (out []drift.PushOutcome, err error) {
	return out, c.post(ctx, objectPath(kind, name)+"/push", p, &out)
}

// PushNode is PushObject for all that is to be on a node.
func (c *Client) PushNode(ctx context.Context, name string, p PushNow) (out []drift.PushOutcome, err error) {
	return out, c.post(ctx, "/nodes/"+url.PathEscape(name)+"/push", p, &out)
}

// RestoreObject takes an object out of the bin.
func (c *Client) RestoreObject(ctx context.Context, kind, name, reason string) error {
	return c.post(ctx, objectPath(kind, name)+"/restore", Verb{Reason: reason}, nil)
}

// Drift lists the open episodes that a query leaves, the oldest first.
func (c *Client) Drift(ctx context.Context, q DriftQuery) (all []drift.EpisodeRow, err error) {
	v := page(map[string]string{"node": q.Node, "kind": q.Kind, "name": q.Name, "drift": q.Drift}, 0, 0)
	return all, c.get(ctx, "/drift", v, &all)
}

// Episode returns an open episode.
func (c *Client) Episode(ctx context.Context, id string) (e drift.EpisodeDetail, err error) {
	return e, c.get(ctx, "/drift/"+url.PathEscape(id), nil, &e)
}

// Resolve decides about an episode.
func (c *Client) Resolve(ctx context.Context, id string, r ResolveDrift) (o Outcome, err error) {
	return o, c.post(ctx, "/drift/"+url.PathEscape(id)+"/resolve", r, &o)
}

// ResolveMany decides about many episodes, each by itself.
func (c *Client) ResolveMany(ctx context.Context, r ResolveMany) (out []Outcome, err error) {
	return out, c.post(ctx, "/drift-resolutions", r, &out)
}

// Resolutions lists the newest decisions about drift, the newest first.
func (c *Client) Resolutions(ctx context.Context) (all []drift.Resolution, err error) {
	return all, c.get(ctx, "/drift-resolutions", nil, &all)
}

// UndoResolution takes a decision back.
func (c *Client) UndoResolution(ctx context.Context, id, reason string) error {
	return c.post(ctx, "/drift-resolutions/"+url.PathEscape(id)+"/undo", Verb{Reason: reason}, nil)
}

// IgnoredDrift lists the rules that have fields be no drift.
func (c *Client) IgnoredDrift(ctx context.Context) (all []Ignored, err error) {
	return all, c.get(ctx, "/drift-ignored", nil, &all)
}

// IgnoreDrift adds such a rule.
func (c *Client) IgnoreDrift(ctx context.Context, in IgnoreDrift) (r Ignored, err error) {
	return r, c.post(ctx, "/drift-ignored", in, &r)
}

// UnignoreDrift ends one.
func (c *Client) UnignoreDrift(ctx context.Context, rule string) error {
	return c.send(ctx, http.MethodDelete, "/drift-ignored/"+url.PathEscape(rule), nil, nil, nil)
}
