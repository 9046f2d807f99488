package operations

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/wire"
)

// filters are the parameters of a filter.
var filters = []string{"about", "type", "actor", "from", "until"}

// filter is what a record has to be to be shown: all of what is set.
type filter struct {
	topics []topic
	types  []string
	actor  string
	from   clock.Instant
	until  clock.Instant
}

// filter reads what a request asks for, as it was sent: huma passes over a parameter whose first
// value is empty, and the answer would be about everything.
func (h *Handler) filter(ctx context.Context, q url.Values) (f filter, err error) {
	if f.topics, err = h.topicsOf(ctx, q["about"]); err != nil {
		return f, err
	}
	for _, asked := range q["type"] {
		types := typesOf(asked)
		if len(types) == 0 {
			return f, wire.Refuse(wire.ErrInvalid, "there is no event type %q%s; a group of them is named as in rollout.*", asked, near(asked))
		}
		f.types = append(f.types, types...)
	}
	f.actor = q.Get("actor")
	for name, at := range map[string]*clock.Instant{"from": &f.from, "until": &f.until} { // order-free: each sets its own
		if q.Get(name) == "" {
			continue
		}
		n, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil {
			return f, wire.Refuse(wire.ErrInvalid, "%s is an instant in milliseconds since 1970", name)
		}
		*at = clock.Instant(n)
	}
	return f, nil
}

// typesOf are the event types of a name, or of a group such as rollout.*; none is not known.
func typesOf(name string) []string {
	group, is := strings.CutSuffix(name, "*")
	return slices.DeleteFunc(event.Types(), func(t string) bool {
		return t != name && !(is && strings.HasSuffix(group, ".") && strings.HasPrefix(t, group))
	})
}

func near(name string) string {
	if names := prose.Nearest(name, event.Types()); len(names) > 0 {
		return ": did you mean " + strings.Join(names, " or ") + "?"
	}
	return ""
}

// onlyAbout reports whether nothing but the first topic is asked for: what the index has under
// its name matches.
func (f *filter) onlyAbout() bool {
	return len(f.topics) == 1 && len(f.topics[0].former) == 0 && f.plain()
}

// plain reports whether nothing is asked for but topics.
func (f *filter) plain() bool { return f.types == nil && f.actor == "" && f.from == 0 && f.until == 0 }

// within reports whether a record that was committed at an instant is shown.
func (f *filter) within(at clock.Instant) bool {
	return (f.from == 0 || at >= f.from) && (f.until == 0 || at <= f.until)
}

// match reports whether a record is shown if its time is within the filter's.
func (f *filter) match(r *event.Record) bool {
	switch {
	case f.types != nil && !slices.Contains(f.types, r.Type),
		f.actor != "" && !named(event.Actor(&r.Entry), f.actor):
		return false
	case len(f.topics) == 0:
		return true
	}
	about := event.About(&r.Entry)
	for i := range f.topics {
		if !f.topics[i].covers(r, about) {
			return false
		}
	}
	return true
}

// named reports whether an actor, which is NAME or NAME (TOKEN), is who is asked for.
func named(actor, asked string) bool {
	name, _, _ := strings.Cut(actor, " (")
	return asked == actor || asked == name
}
