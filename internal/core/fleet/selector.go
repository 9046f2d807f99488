package fleet

import (
	"slices"
	"strings"
)

// Selector picks hosts. The base rules are alternatives: a host matches when
// any of them does. And needs all of its parts besides; Not takes away. There
// are no wildcards.
type Selector struct {
	Tags    []string   `json:"tags,omitempty"`    // all of these
	TagsAny []string   `json:"tagsAny,omitempty"` // any of these
	Hosts   []string   `json:"hosts,omitempty"`
	Channel string     `json:"channel,omitempty"`
	All     bool       `json:"all,omitempty"`
	Not     *Selector  `json:"not,omitempty"`
	And     []Selector `json:"and,omitempty"`
}

// Matches reports whether the selector picks a host with these properties.
func (s *Selector) Matches(host, channel string, tags []string) bool {
	if s.Not != nil && s.Not.Matches(host, channel, tags) {
		return false
	}
	for i := range s.And {
		if !s.And[i].Matches(host, channel, tags) {
			return false
		}
	}
	if !s.hasBase() {
		return s.Not != nil || len(s.And) > 0
	}
	return s.All ||
		(s.Channel != "" && s.Channel == channel) ||
		slices.Contains(s.Hosts, host) ||
		slices.ContainsFunc(s.TagsAny, func(t string) bool { return slices.Contains(tags, t) }) ||
		(len(s.Tags) > 0 && !slices.ContainsFunc(s.Tags, func(t string) bool { return !slices.Contains(tags, t) }))
}

func (s *Selector) hasBase() bool {
	return s.All || s.Channel != "" || len(s.Hosts) > 0 || len(s.TagsAny) > 0 || len(s.Tags) > 0
}

// String renders the selector for people, with sorted lists.
func (s *Selector) String() string {
	var parts []string
	list := func(name string, v []string) {
		if len(v) > 0 {
			v = slices.Sorted(slices.Values(v))
			parts = append(parts, name+":"+strings.Join(v, ","))
		}
	}
	if s.All {
		parts = append(parts, "all")
	}
	if s.Channel != "" {
		parts = append(parts, "channel:"+s.Channel)
	}
	list("tags", s.Tags)
	list("tagsAny", s.TagsAny)
	list("hosts", s.Hosts)
	for i := range s.And {
		parts = append(parts, "and("+s.And[i].String()+")")
	}
	if s.Not != nil {
		parts = append(parts, "not("+s.Not.String()+")")
	}
	return strings.Join(parts, " ")
}
