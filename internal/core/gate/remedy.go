package gate

// Remedy is one thing that a person can do about what blocks.
type Remedy struct {
	// Operation of the operator API does it: its id, what its path names in order, and the
	// wave that it is about. Empty where it takes a signature, or a hand on the host.
	Operation string   `json:"operation,omitempty"`
	Args      []string `json:"args,omitempty"`
	Wave      string   `json:"wave,omitempty"`
	// Command does the same, or is what to begin with.
	Command string `json:"command"`
}

// command is a remedy that no operation of the API is.
func command(line string) Remedy { return Remedy{Command: "steady " + line} }

// release is the remedy of whoever makes releases.
func release() Remedy { return command("release push") }

// enrol is the remedy of whoever sets hosts up.
func enrol(host string) Remedy { return command("token create " + host) }

// steer is a verb about a rollout.
func steer(verb, rollout string) Remedy {
	return Remedy{Operation: "operate-rollout", Args: []string{rollout, verb}, Command: "steady rollout " + verb + " " + rollout}
}

func promote(rollout, wave string) Remedy {
	return Remedy{Operation: "promote-wave", Args: []string{rollout}, Wave: wave, Command: "steady rollout promote " + rollout}
}

func retry(rollout string) Remedy {
	return Remedy{Operation: "retry-rollout", Args: []string{rollout}, Command: "steady rollout retry " + rollout}
}

// onHost is a verb about a host.
func onHost(verb, host string) Remedy {
	return Remedy{Operation: verb + "-host", Args: []string{host}, Command: "steady host " + verb + " " + host}
}
