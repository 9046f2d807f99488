package prose

// Meaning is what a word means that people see as the status of something, and what comes next or
// is to be done.
type Meaning struct {
	Word  string `json:"word"`
	Means string `json:"means"`
	Next  string `json:"next,omitempty"`
}
