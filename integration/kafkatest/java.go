package kafkatest

import (
	"fmt"
	"os"
	"os/exec"
)

// smallJVM: 150 MB a broker, half the start-up time of the stock one.
var smallJVM = [...]string{
	"-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k",
	"-XX:ReservedCodeCacheSize=48m", "-XX:-UsePerfData", "-Xshare:auto",
	"-Dlog4j2.level=WARN", // where no configuration is named: to standard output
}

// java is the command for one of Kafka's main classes, with more flags of the JVM before it.
func (tc toolchain) command(flags []string, class string, args ...string) *exec.Cmd {
	all := append(smallJVM[:len(smallJVM):len(smallJVM)], flags...)
	all = append(all, "-cp", tc.classpath, class)
	return exec.Command(tc.java, append(all, args...)...)
}

// launchJava starts a main class with the image's class archive and a flag; output is appended to log.
func launchJava(tc toolchain, img image, log, flag, class string, args ...string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", class, err)
	}
	defer out.Close() // the child has its own
	cmd := tc.command(append(img.flags[:len(img.flags):len(img.flags)], flag), class, args...)
	cmd.Stdout, cmd.Stderr = out, out
	return Launch(cmd)
}
