// Package janus drives the mountpoints of the streaming plugin of a Janus WebRTC gateway
// (1.1) over its HTTP API, beside the gateway: what the API does not report, the driver
// reads in the plugin's configuration file. An object is a mountpoint, by its name.
package janus
