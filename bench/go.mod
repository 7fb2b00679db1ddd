module github.com/tallystick/tallystick/bench

go 1.26.8

require (
	github.com/tallystick/tallystick v0.0.0-00010101000000-000000000000
	github.com/tallystick/tallystick/integration v0.0.0-00010101000000-000000000000
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kadm v1.20.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/quagmt/udecimal v1.11.1 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace (
	github.com/tallystick/tallystick => ../
	github.com/tallystick/tallystick/integration => ../integration
)
