package topics

import "github.com/tallystick/tallystick/record"

// Topic is a name and the codecs of its key and value. It is a value: declare it once in a package variable, or where it is used;
// two topics of one name are the same topic.
type Topic[K, V any] struct {
	Name  string
	Key   record.Codec[K]
	Value record.Codec[V]
}

// New declares a topic. It checks nothing and talks to nobody: the pipeline that uses it validates the name ([CheckName]).
func New[K, V any](name string, key record.Codec[K], value record.Codec[V]) Topic[K, V] {
	return Topic[K, V]{Name: name, Key: key, Value: value}
}
