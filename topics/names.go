package topics

import (
	"fmt"
	"strings"
)

// maxName is Kafka's limit for the length of a topic's name, in bytes.
const maxName = 249

// StateTopic is the name of a stage's compacted state topic. All stores of the stage share it.
func StateTopic(app, stage string) string { return app + "-" + stage + "-state" }

// Repartition is the name of the topic through which other stages of the application hand records to a stage under a new key.
func Repartition(app, stage string) string { return app + "-" + stage + repartitionSuffix }

const repartitionSuffix = "-repartition"

// RepartitionOf returns the stage of which topic is the repartition topic, if app is its application; false when it is none.
func RepartitionOf(app, topic string) (stage string, ok bool) {
	if len(topic) <= len(app)+len("-")+len(repartitionSuffix) {
		return "", false
	}
	stage = strings.TrimSuffix(strings.TrimPrefix(topic, app+"-"), repartitionSuffix)
	return stage, Repartition(app, stage) == topic
}

// DeadLetters is the name of the topic that takes what an application could not process.
func DeadLetters(app string) string { return app + "-dead-letters" }

// CheckName refuses what Kafka refuses as the name of a topic: anything but 1 to 249 of the characters a-z A-Z 0-9 . _ -, and the
// names "." and "..".
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("topic without a name: give it one")
	case name == "." || name == "..":
		return fmt.Errorf("topic %q: the name is reserved by Kafka; choose another", name)
	case len(name) > maxName:
		return fmt.Errorf("topic %q: %d bytes, Kafka allows %d; shorten it", name[:32]+"…", len(name), maxName)
	}
	if i := strings.IndexFunc(name, notInName); i >= 0 {
		return fmt.Errorf("topic %q: character %q is not allowed by Kafka; use a-z A-Z 0-9 . _ -", name, []rune(name[i:])[0])
	}
	return nil
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-')
}
