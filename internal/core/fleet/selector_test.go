package fleet

import "testing"

func TestSelectorSemantics(t *testing.T) {
	type host struct {
		name, channel string
		tags          []string
	}
	h := host{"web-1", "stable", []string{"web", "eu"}}
	tests := []struct {
		name string
		s    Selector
		want bool
		text string
	}{
		{"empty picks nothing", Selector{}, false, ""},
		{"all", Selector{All: true}, true, "all"},
		{"every tag is there", Selector{Tags: []string{"web", "eu"}}, true, "tags:eu,web"},
		{"one tag is missing", Selector{Tags: []string{"web", "us"}}, false, "tags:us,web"},
		{"any tag is there", Selector{TagsAny: []string{"us", "eu"}}, true, "tagsAny:eu,us"},
		{"no tag of any is there", Selector{TagsAny: []string{"us", "db"}}, false, "tagsAny:db,us"},
		{"host", Selector{Hosts: []string{"db-1", "web-1"}}, true, "hosts:db-1,web-1"},
		{"other host", Selector{Hosts: []string{"web-2"}}, false, "hosts:web-2"},
		{"no wildcards", Selector{Hosts: []string{"web-*"}}, false, "hosts:web-*"},
		{"channel", Selector{Channel: "stable"}, true, "channel:stable"},
		{"other channel", Selector{Channel: "lab"}, false, "channel:lab"},
		{"base rules are alternatives", Selector{Channel: "lab", Hosts: []string{"web-1"}}, true, "channel:lab hosts:web-1"},
		{"tags and tagsAny are alternatives", Selector{Tags: []string{"us"}, TagsAny: []string{"eu"}}, true, "tags:us tagsAny:eu"},
		{"not alone picks the rest", Selector{Not: &Selector{Tags: []string{"db"}}}, true, "not(tags:db)"},
		{"not takes away", Selector{All: true, Not: &Selector{Tags: []string{"eu"}}}, false, "all not(tags:eu)"},
		{"not of nothing takes nothing", Selector{Not: &Selector{}}, true, "not()"},
		{"and alone", Selector{And: []Selector{{Tags: []string{"web"}}, {Tags: []string{"eu"}}}}, true, "and(tags:web) and(tags:eu)"},
		{"and needs every part", Selector{And: []Selector{{Tags: []string{"web"}}, {Tags: []string{"us"}}}}, false, "and(tags:web) and(tags:us)"},
		{"and narrows the base", Selector{All: true, And: []Selector{{Tags: []string{"us"}}}}, false, "all and(tags:us)"},
		{"and does not replace the base", Selector{Hosts: []string{"db-1"}, And: []Selector{{All: true}}}, false, "hosts:db-1 and(all)"},
		{"not wins over and", Selector{And: []Selector{{All: true}}, Not: &Selector{Hosts: []string{"web-1"}}}, false, "and(all) not(hosts:web-1)"},
		{"not of not", Selector{Not: &Selector{Not: &Selector{All: true}}}, true, "not(not(all))"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.s.Matches(h.name, h.channel, h.tags); got != tc.want {
				t.Errorf("Matches = %v, want %v", got, tc.want)
			}
			if got := tc.s.String(); got != tc.text {
				t.Errorf("String = %q, want %q", got, tc.text)
			}
		})
	}
}
