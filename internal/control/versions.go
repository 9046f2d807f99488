package control

import (
	"cmp"
	"maps"
	"slices"
)

// maxVersions bounds the versions of agents that are told apart: hosts say them of
// themselves.
const maxVersions = 32

// otherVersions stands for the rest.
const otherVersions = "other"

// AgentVersions counts the hosts that are online by the version of their agents.
func (c *Control) AgentVersions() map[string]int {
	n := map[string]int{}
	c.hosts.eachSample(func(_ string, s *Sample) { n[s.AgentVersion]++ })
	return fewVersions(n)
}

// fewVersions adds up all but the most frequent ones.
func fewVersions(n map[string]int) map[string]int {
	if len(n) <= maxVersions {
		return n
	}
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
	out := map[string]int{}
	for i, v := range names {
		if i >= maxVersions-1 {
			v = otherVersions
		}
		out[v] += n[names[i]]
	}
	return out
}
