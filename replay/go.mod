module github.com/tallystick/tallystick/replay

go 1.26.0

require (
	github.com/tallystick/tallystick v0.0.0-00010101000000-000000000000
	github.com/tetratelabs/wazero v1.12.0
)

require golang.org/x/sys v0.50.0 // indirect

replace github.com/tallystick/tallystick => ../
