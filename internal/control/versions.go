package control

import "github.com/steadyfleet/steady/internal/core/health"

// maxVersions bounds the versions of agents that are told apart: hosts say them of
// themselves.
const maxVersions = 32

// AgentVersions counts the hosts that are online by the version of their agents.
func (c *Control) AgentVersions() map[string]int {
	n := map[string]int{}
	c.hosts.eachSample(func(_ string, s *Sample) { n[s.AgentVersion]++ })
	return health.MostFrequent(n, maxVersions)
}
