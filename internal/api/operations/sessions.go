package operations

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/wire"
)

type (
	sessionIn struct {
		Name string `path:"name" maxLength:"63"`
	}
	sessionListIn struct {
		Search string        `query:"search" maxLength:"63" doc:"A part of the name, or of the owner's"`
		State  session.State `query:"state" enum:"Pending,Scheduled,Provisioning,Ready,Running,Degraded,Stopping,Retired,Failed,Orphaned,"`
		Cut
	}
	newSessionIn struct {
		Name string `path:"name" maxLength:"63"`
		Body operator.NewSession
	}
	sessionVerbIn struct {
		Name string `path:"name" maxLength:"63"`
		Verb string `path:"verb" enum:"start,stop,cancel,reconcile"`
	}
	extendIn struct {
		Name string `path:"name" maxLength:"63"`
		Body operator.ExtendSession
	}
	partVerbIn struct {
		Name string `path:"name" maxLength:"63"`
		Part string `path:"part" maxLength:"63"`
		Verb string `path:"verb" enum:"stop,start"`
	}
	phaseIn struct {
		Name  string `path:"name" maxLength:"63"`
		Part  string `path:"part" maxLength:"63"`
		Phase string `path:"phase" maxLength:"63"`
	}
)

// maxSession bounds a session in a request, in bytes.
const maxSession = 1 << 20

// decidedWithin bounds how long the answer for a new session waits for its hosts to be chosen.
const decidedWithin = 5 * time.Second

func sessionsOf(all []session.Status, err error) ([]operator.Session, error) {
	out := []operator.Session{}
	for _, st := range all {
		out = append(out, operator.Session(st))
	}
	return out, err
}

// sessions registers the routes of sessions.
func (h *Handler) sessions() {
	s := h.c.Sessions()
	big := func(id, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, MaxBodyBytes: maxSession}
	}
	add(h, get("list-sessions", "/sessions", "List the sessions that are kept"), viewing, func(ctx context.Context, _ *none) ([]operator.Session, error) {
		return sessionsOf(s.List(ctx))
	})
	add(h, get("page-sessions", "/session-list", "List a page of the sessions that filters leave, those that start last first"), viewing, func(ctx context.Context, in *sessionListIn) (operator.Page[operator.Session], error) {
		all, err := sessionsOf(s.List(ctx))
		all = slices.DeleteFunc(all, func(s operator.Session) bool {
			return !strings.Contains(s.Name, in.Search) && !strings.Contains(s.Owner, in.Search) || in.State != "" && s.State != in.State
		})
		slices.SortStableFunc(all, func(a, b operator.Session) int { return b.Timeslot.Start.Compare(a.Timeslot.Start) })
		return pageOf(in.Cut, all), err
	})
	add(h, get("show-session", "/sessions/{name}", "Show one session: its parts, pods and phases"), viewing, func(ctx context.Context, in *sessionIn) (operator.Session, error) {
		st, err := s.Show(ctx, in.Name)
		return operator.Session(st), err
	})
	add(h, big("create-session", "/sessions/{name}", "Ask for a session"), operating, h.createSession)
	add(h, big("preview-session", "/sessions/{name}/preview", "Say where the pods of a session would go now; nothing is reserved"), viewing, h.previewSession)
	do(h, post("operate-session", "/sessions/{name}/{verb}", "Have a session come up now, take it down or back, or look at everything of it now"), operating, func(ctx context.Context, in *sessionVerbIn) error {
		switch in.Verb {
		case "start":
			return s.Start(ctx, in.Name, actor(ctx))
		case "stop":
			return s.Stop(ctx, in.Name, actor(ctx))
		case "cancel":
			return s.Cancel(ctx, in.Name, actor(ctx))
		}
		return s.Reconcile(ctx, in.Name, actor(ctx))
	})
	add(h, post("extend-session", "/sessions/{name}/extend", "Move the end of a session, and its cleanup deadline by as much"), operating, h.extendSession)
	add(h, post("session-token", "/sessions/{name}/token", "Where and with which token events are sent to a session"), operating, func(ctx context.Context, in *sessionIn) (operator.SessionEvents, error) {
		return h.sessionEvents(ctx, in.Name)
	})
	do(h, post("operate-part", "/sessions/{name}/parts/{part}/{verb}", "Stop or start a part of a session"), operating, func(ctx context.Context, in *partVerbIn) error {
		return s.SetPart(ctx, in.Name, in.Part, in.Verb == "stop", actor(ctx))
	})
	do(h, post("retry-phase", "/sessions/{name}/phases/{part}/{phase}/retry", "Have a phase of a part begin anew"), operating, func(ctx context.Context, in *phaseIn) error {
		return s.RetryPhase(ctx, in.Name, in.Part+"/"+in.Phase, newName(), actor(ctx))
	})
	h.sessionTemplates()
	h.raw("receive-event", http.MethodPost, operator.RouteEvents, "Take a CloudEvent for a session, or with subject PART/PHASE for a phase of it; with the token of the session", signed, h.receive)
}

func (h *Handler) createSession(ctx context.Context, in *newSessionIn) (out operator.CreatedSession, err error) {
	if err := h.c.Sessions().Create(ctx, in.Name, in.Body.Spec(), in.Body.Parameters, actor(ctx)); err != nil {
		return out, err
	}
	wait, stop := context.WithTimeout(ctx, decidedWithin)
	defer stop()
	st, err := h.c.Sessions().Decided(wait, in.Name)
	if err != nil {
		return out, err
	}
	out.Session, out.Decided, out.Waits = operator.Session(st), st.Decided(), st.Waits()
	if out.SessionEvents, err = h.sessionEvents(ctx, in.Name); err != nil {
		return out, err
	}
	secrets, err := h.c.CreatedSecrets(ctx, in.Name)
	for _, x := range secrets {
		out.Secrets = append(out.Secrets, operator.SessionSecret{Pod: x.Part + "/" + x.Pod, Name: x.Name, Value: x.Value})
	}
	return out, err
}

// extendSession moves the end to an instant, or by a span from where it is when that is decided.
func (h *Handler) extendSession(ctx context.Context, in *extendIn) (out operator.ExtendedSession, err error) {
	switch to := in.Body; {
	case to.End.IsZero() == (to.By == 0):
		return out, wire.Refuse(wire.ErrInvalid, "give either the end or by how much it moves")
	case to.By != 0:
		out.End, err = h.c.Sessions().ExtendBy(ctx, in.Name, to.By.Std(), actor(ctx))
	default:
		out.End, err = to.End, h.c.Sessions().Extend(ctx, in.Name, to.End, actor(ctx))
	}
	return out, err
}

func (h *Handler) sessionEvents(ctx context.Context, name string) (operator.SessionEvents, error) {
	token, err := h.c.EventToken(ctx, name)
	return operator.SessionEvents{Path: strings.Replace(operator.RouteEvents, "{name}", name, 1), EventToken: token}, err
}

func (h *Handler) previewSession(ctx context.Context, in *newSessionIn) (operator.SessionPreview, error) {
	p, room, err := h.c.Sessions().Preview(ctx, in.Name, in.Body.Spec(), in.Body.Parameters, actor(ctx))
	out := operator.SessionPreview{Fits: p.Refused == nil, Room: room, Pods: []operator.PlacedPod{}}
	if p.Refused != nil {
		p.Decisions = []place.Decision{*p.Refused}
	}
	for _, d := range p.Decisions {
		_, pod, _ := strings.Cut(d.Owner, "/")
		row := operator.PlacedPod{Pod: pod, Host: d.Host, GPUs: d.GPUs, Message: d.Message, Feasible: d.Feasible}
		for _, r := range d.LeftOut {
			row.LeftOut = append(row.LeftOut, operator.LeftOutHost{Host: r.Host, Code: string(r.Code), Message: r.Message})
		}
		out.Pods = append(out.Pods, row)
	}
	return out, err
}
