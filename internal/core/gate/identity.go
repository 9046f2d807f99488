package gate

// Identity blocks a host whose identity counts for nothing.
const Identity Code = "identity"

// Standing of a host's identity that blocks it.
const (
	Forked         = "forked"         // two histories of one host
	Parked         = "parked"         // its state was set back, as it says itself
	Revoked        = "revoked"        // its certificates ended
	Decommissioned = "decommissioned" // retired by an operator
	Leaving        = "leaving"        // removed by a signed override
)

// CheckIdentity blocks a host by the standing of its identity, which is empty
// when it is good; reason is what was given for it.
func CheckIdentity(host, standing, reason string) *Block {
	switch standing {
	case Forked:
		return block(Identity, Forked).because("two agents share the identity of host %s, or its state folder was set back", host).
			until("the host to enrol again", never).
			by("whoever runs the host: stop all but one agent, move its state folder away, and enrol again with steady token create "+host, enrol(host))
	case Parked:
		return block(Identity, Parked).because("host %s is parked: %s; what runs goes on, and it starts and changes nothing", host, reason).
			until("the host to enrol again", never).
			by("whoever runs the host: check its disk, then steady token create "+host+", stop its agent and start it once with --token, in the same state folder", enrol(host))
	case Leaving:
		return block(Identity, Leaving).because("host %s is removed from the fleet: %s; it takes nothing more", host, reason).
			until("the host to enrol again", never).
			by("whoever has its workloads gone: steady host decommission "+host+", and remove it from fleet.yaml; or, to bring it back, steady token create "+host, onHost("decommission", host), enrol(host))
	case Revoked:
		return block(Identity, Revoked).because("the certificates of host %s are revoked: %s", host, reason).
			until("the host to enrol again", never).
			by("whoever adds hosts, if it is meant to stay: steady token create "+host+
				"; otherwise steady host decommission "+host+", which gives back the slot that it keeps if it was at work", enrol(host), onHost("decommission", host))
	case Decommissioned:
		return block(Identity, Decommissioned).because("host %s is decommissioned: %s", host, reason).
			until("the host to leave the release, or to enrol again", never).
			by("a releaser who removes the host from fleet.yaml; or, to bring it back, steady token create "+host, release(), enrol(host))
	}
	return nil
}
