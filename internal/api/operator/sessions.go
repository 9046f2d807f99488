package operator

import (
	"context"
	"net/url"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// NewSession asks for a session: with its parts, or of a template with values for its parameters.
type NewSession struct {
	Timeslot   session.Timeslot     `json:"timeslot"`
	Template   string               `json:"template,omitempty" maxLength:"63"`
	Parameters map[string]any       `json:"parameters,omitempty"`
	Calls      []string             `json:"calls,omitempty" doc:"Hosts that jobs may call"`
	OnFailure  engine.FailureAction `json:"onFailure,omitempty"`
	Parts      []session.Part       `json:"parts,omitempty"`
}

// Spec is the session as it is asked for.
func (n *NewSession) Spec() session.Spec {
	return session.Spec{Timeslot: n.Timeslot, Template: n.Template, Calls: n.Calls, OnFailure: n.OnFailure, Parts: n.Parts}
}

// NewSessionOf is the request for a session that a file asks for.
func NewSessionOf(s *session.Spec, parameters map[string]any) NewSession {
	return NewSession{Timeslot: s.Timeslot, Template: s.Template, Parameters: parameters, Calls: s.Calls, OnFailure: s.OnFailure, Parts: s.Parts}
}

// SessionTemplate is a template of sessions.
type SessionTemplate struct {
	Name        string              `json:"name"`
	Owner       string              `json:"owner"`
	Description string              `json:"description,omitempty"`
	Updated     time.Time           `json:"updated"`
	Parameters  []session.Parameter `json:"parameters"`
	Version     int64               `json:"version"` // another one after each change
	Document    string              `json:"document,omitempty" doc:"As it was written; not in lists"`
}

// PutTemplate sets a template.
type PutTemplate struct {
	Document string `json:"document" minLength:"1" maxLength:"262144" doc:"YAML"`
	Version  int64  `json:"version,omitempty" doc:"Of the template that the change was made on, as it was read: refused if it is another one now; 0 is whichever there is"`
}

// OwnerQuota bounds what the sessions of an owner take whose timeslots overlap; 0 is no bound.
type OwnerQuota struct {
	Owner   string `json:"owner"`
	Version int64  `json:"version"` // another one after each change
	session.Quota
}

// SetQuota sets the quota of an owner.
type SetQuota struct {
	session.Quota
	Only    []string `json:"only,omitempty" doc:"The names of the bounds that are set, the others staying as they are; none is all"`
	Version int64    `json:"version,omitempty" doc:"Of the quota that the change was made on, as it was read: refused if it is another one now; 0 is whichever there is"`
}

// Session is a session as it stands.
type Session session.Status

// CreatedSession is a session with what those who send events to it need.
type CreatedSession struct {
	Session Session `json:"session"`
	SessionEvents
	Secrets []SessionSecret `json:"secrets,omitempty" doc:"no other answer has them"`
	Decided bool            `json:"decided" doc:"It is known of each pod that waits for no other part where it is to run, or why it waits"`
	Waits   []session.Wait  `json:"waits,omitempty" doc:"Pods that wait for a host; the session is Pending until they have one"`
}

// SessionSecret is what a pod was given, until the session ends.
type SessionSecret struct {
	Pod   string `json:"pod"` // PART/POD
	Name  string `json:"name"`
	Value string `json:"value"`
}

// SessionEvents is where and how events are sent to a session.
type SessionEvents struct {
	Path       string `json:"eventPath"`  // of the server
	EventToken string `json:"eventToken"` // Authorization: Bearer
}

// SessionPreview is where the pods of a session would go now.
type SessionPreview struct {
	Fits bool        `json:"fits"` // each pod has a host
	Room time.Time   `json:"room,omitzero" doc:"When a pod that has none is likely to get one; left out if that is not known"`
	Pods []PlacedPod `json:"pods"` // that did not fit alone, if one did not
}

// PlacedPod is where a pod would go, and why.
type PlacedPod struct {
	Pod      string        `json:"pod"` // PART/POD
	Host     string        `json:"host,omitempty"`
	GPUs     []int         `json:"gpus,omitempty"`
	Message  string        `json:"message"`
	Feasible int           `json:"feasible"` // hosts that could run it
	LeftOut  []LeftOutHost `json:"leftOut,omitempty"`
}

// LeftOutHost is a host that cannot run a pod.
type LeftOutHost struct {
	Host    string `json:"host"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// ExtendSession moves the end of a session: to an instant, or by a span from where it is when that is decided.
type ExtendSession struct {
	End time.Time      `json:"end,omitzero"`
	By  clock.Duration `json:"by,omitempty" doc:"How much later it ends; below zero, how much sooner"`
}

// ExtendedSession is where the end of a session is now.
type ExtendedSession struct {
	End time.Time `json:"end"`
}

func sessionPath(name string, more ...string) string {
	path := "/sessions/" + url.PathEscape(name)
	for _, m := range more {
		path += "/" + url.PathEscape(m)
	}
	return path
}

// Sessions lists the sessions that are kept.
func (c *Client) Sessions(ctx context.Context) (all []Session, err error) {
	return all, c.get(ctx, "/sessions", nil, &all)
}

// Session returns one session.
func (c *Client) Session(ctx context.Context, name string) (s Session, err error) {
	return s, c.get(ctx, sessionPath(name), nil, &s)
}

// CreateSession asks for a session.
func (c *Client) CreateSession(ctx context.Context, name string, n NewSession) (s CreatedSession, err error) {
	return s, c.post(ctx, sessionPath(name), n, &s)
}

// PreviewSession says where the pods of a session would go now.
func (c *Client) PreviewSession(ctx context.Context, name string, n NewSession) (p SessionPreview, err error) {
	return p, c.post(ctx, sessionPath(name, "preview"), n, &p)
}

// StopSession takes a session down.
func (c *Client) StopSession(ctx context.Context, name string) error {
	return c.post(ctx, sessionPath(name, "stop"), struct{}{}, nil)
}

// StartSession has a session come up now that was to come up later.
func (c *Client) StartSession(ctx context.Context, name string) error {
	return c.post(ctx, sessionPath(name, "start"), struct{}{}, nil)
}

// CancelSession takes back a session of which nothing has come up.
func (c *Client) CancelSession(ctx context.Context, name string) error {
	return c.post(ctx, sessionPath(name, "cancel"), struct{}{}, nil)
}

// ReconcileSession has everything of a session looked at now.
func (c *Client) ReconcileSession(ctx context.Context, name string) error {
	return c.post(ctx, sessionPath(name, "reconcile"), struct{}{}, nil)
}

// ExtendSession moves the end of a session.
func (c *Client) ExtendSession(ctx context.Context, name string, to ExtendSession) (s ExtendedSession, err error) {
	return s, c.post(ctx, sessionPath(name, "extend"), to, &s)
}

// SetSessionPart stops or starts a part of a session.
func (c *Client) SetSessionPart(ctx context.Context, name, part string, stopped bool) error {
	verb := "start"
	if stopped {
		verb = "stop"
	}
	return c.post(ctx, sessionPath(name, "parts", part, verb), struct{}{}, nil)
}

// RetrySessionPhase has a phase of a part begin anew.
func (c *Client) RetrySessionPhase(ctx context.Context, name, part, phase string) error {
	return c.post(ctx, sessionPath(name, "phases", part, phase, "retry"), struct{}{}, nil)
}

// SessionEvents returns where and how events are sent to a session.
func (c *Client) SessionEvents(ctx context.Context, name string) (e SessionEvents, err error) {
	return e, c.post(ctx, sessionPath(name, "token"), struct{}{}, &e)
}

// SessionTemplates lists the templates of sessions.
func (c *Client) SessionTemplates(ctx context.Context) (all []SessionTemplate, err error) {
	return all, c.get(ctx, "/session-templates", nil, &all)
}

func templatePath(name string) string { return "/session-templates/" + url.PathEscape(name) }

// SessionTemplate returns one template with its document.
func (c *Client) SessionTemplate(ctx context.Context, name string) (t SessionTemplate, err error) {
	return t, c.get(ctx, templatePath(name), nil, &t)
}

// PutSessionTemplate sets a template.
func (c *Client) PutSessionTemplate(ctx context.Context, name string, p PutTemplate) error {
	return c.post(ctx, templatePath(name), p, nil)
}

// RemoveSessionTemplate removes a template.
func (c *Client) RemoveSessionTemplate(ctx context.Context, name string) error {
	return c.post(ctx, templatePath(name)+"/remove", struct{}{}, nil)
}

// SessionQuotas lists the quotas of owners.
func (c *Client) SessionQuotas(ctx context.Context) (all []OwnerQuota, err error) {
	return all, c.get(ctx, "/session-quotas", nil, &all)
}

// SetSessionQuota sets the quota of an owner; one without a bound is removed.
func (c *Client) SetSessionQuota(ctx context.Context, owner string, q SetQuota) error {
	return c.post(ctx, "/session-quotas/"+url.PathEscape(owner), q, nil)
}
