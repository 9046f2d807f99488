#!/sbin/openrc-run
# The agent of a host, as steady agent install writes it on machines with OpenRC. Its settings
# are those of the unit for systemd, where their reasons are.
description="Steady agent of host {{.Host}} of fleet {{.Fleet}}"
supervisor=supervise-daemon
{{.CommandLine}}
umask=0022
# Never give up: a host that is out of reach must come back by itself.
respawn_delay=2
respawn_max=0
retry="SIGTERM/30/SIGKILL/5"
# Only the agent is stopped. What a bundle's commands left running goes on.
rc_cgroup_cleanup="NO"
export SSD_OOM_SCORE_ADJ=-500
error_log="/var/log/${RC_SVCNAME}.log"

depend() {
	after localmount firewall docker
	use net dns logger
}

start_pre() {
	checkpath --directory --mode 0700 /var/lib/steady
}
