package gate

// CheckOverride blocks new grants of a rollout that an operator's signed override
// holds; action is empty when none does.
func CheckOverride(rollout, action, words string) *Block {
	h := hold(Overlay, "override").because("rollout %s is held: %s", rollout, words)
	switch action {
	case "":
		return nil
	case "freeze":
		return h.until("a later signed override", never).by("whoever has the override key: steady override sign --action unfreeze, then steady override push")
	case "cancel", "rollback":
		return h.until("a release that replaces it", never).by("a releaser: build, sign and push another release")
	}
	return h.until("a later signed override", never).by("whoever has the override key: steady rollout resume " + rollout + " --sign KEYS")
}
