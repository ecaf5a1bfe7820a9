//! What a broadcast may weigh and hold: the client knows the network and the method, so it need not
//! believe what a server says of a file.

use crate::error::NetworkError;
use crate::wire::proto;
use formant_methods::{ErasedMethod, Value};
use formant_runtime::Task;
use formant_runtime::quantity::{count, memory};

/// Bytes beside what a method sends, for how it is written down.
const SLACK: u64 = 1 << 20;

/// Models that a client holds at the same time at most: the server's and its own, decoded and encoded,
/// with what is trained and what is written beside it.
const MODELS: u64 = 10;

/// What the broadcasts of a run are bounded by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bound {
    /// Encoded size of the first one.
    first: u64,
    /// Lengths of its vectors.
    lengths: Vec<usize>,
    /// Numbers that later ones may have beside.
    grows: usize,
    /// Numbers of an upload.
    pub(crate) sent: u64,
    /// Rounds of the run.
    rounds: u64,
    /// Of what, for messages.
    network: String,
}

impl Bound {
    /// By the first broadcast, which every client can make itself.
    pub(crate) fn of(task: &Task, network: &str) -> Result<Self, NetworkError> {
        let model = task.engine.network().layout();
        let parameters = (model.parameters() as u64).saturating_add(model.buffer_values() as u64);
        room(network, parameters, formant_runtime::available())?;
        let method = &*task.method.method;
        let first = method.broadcast(&method.start_server(&task.init()))?;
        let sent = method.upload_lengths(&first, task.engine.network())?;
        Ok(Self {
            first: first.encoded_len()? as u64,
            lengths: method.broadcast_vectors(&first)?.iter().map(|vector| vector.len()).collect(),
            grows: method.broadcast_grows(task.engine.network()),
            sent: sent.iter().map(|length| *length as u64).sum(),
            rounds: task.rounds as u64,
            network: network.to_owned(),
        })
    }

    /// Bytes of a broadcast once everything is in it that may be.
    pub(crate) fn later(&self) -> u64 {
        self.first + 4 * self.grows as u64
    }

    /// Most bytes of a broadcast, packed or not: packing makes nothing much larger.
    pub(crate) fn bytes(&self) -> u64 {
        2 * self.later() + SLACK
    }

    /// Refuses a file by what is said of it, before a byte of it is kept.
    pub(crate) fn check_file(&self, round: u64, file: &proto::File) -> Result<(), NetworkError> {
        // After the last round there is the model that the run has made.
        if !(1..=self.rounds + 1).contains(&round) {
            return Err(NetworkError::Excess {
                what: "the server's order".into(),
                found: format!("the round {}", count(round)),
                most: format!("those of a run with `rounds = {}`", self.rounds),
            });
        }
        if file.bytes <= self.bytes() {
            return Ok(());
        }
        Err(NetworkError::Excess {
            what: format!("the broadcast of round {round}"),
            found: format!("{} bytes", count(file.bytes)),
            most: format!("{} with `{}`", count(self.bytes()), self.network),
        })
    }

    /// Refuses a broadcast that is not of this network.
    pub(crate) fn check(
        &self,
        method: &dyn ErasedMethod,
        round: u64,
        broadcast: &Value,
    ) -> Result<(), NetworkError> {
        let vectors = method.broadcast_vectors(broadcast)?;
        let lengths: Vec<usize> = vectors.iter().map(|vector| vector.len()).collect();
        // What was not there at the beginning is there later as a whole; parameters and statistics, which
        // come first, are always there.
        let fits = |place: usize, found: usize, first: usize| {
            found == first || (place > 1 && first == 0 && found == self.grows)
        };
        let mut pairs = lengths.iter().zip(&self.lengths).enumerate();
        if lengths.len() == self.lengths.len()
            && pairs.all(|(place, (found, first))| fits(place, *found, *first))
        {
            return Ok(());
        }
        Err(NetworkError::Excess {
            what: format!("the broadcast of round {round}"),
            found: format!("vectors of {lengths:?} numbers"),
            most: format!("{:?} with `{}`", self.lengths, self.network),
        })
    }
}

/// Refuses a network of which this client could not hold what it must, before memory is taken for it.
fn room(network: &str, parameters: u64, available: Option<u64>) -> Result<(), NetworkError> {
    let needed = parameters.saturating_mul(4 * MODELS);
    let Some(there) = available.filter(|there| needed > *there) else { return Ok(()) };
    Err(NetworkError::setting(
        format!(
            "the server's network `{network}` has {} parameters; a client takes {} of memory for its models, and {} are free",
            count(parameters),
            memory(needed),
            memory(there)
        ),
        "take part from a machine with more memory, or have the operator choose a smaller network",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use formant_methods::Zoo;
    use formant_numerics::{Model, NetworkSpec, Shape};

    #[test]
    fn a_network_that_does_not_fit_is_refused_with_both_sizes() {
        room("mlp", 1_000_000, Some(40_000_000)).unwrap();
        room("mlp", u64::MAX, None).unwrap();
        let error = room("mlp", 1_000_001, Some(40_000_000)).unwrap_err().to_string();
        assert!(error.contains("1,000,001 parameters") && error.contains("38.1 MiB"), "{error}");
        room("mlp", u64::MAX, Some(1 << 40)).unwrap_err();
    }

    /// Methods whose later broadcasts hold more than the first one say how much more.
    #[test]
    fn vectors_of_other_lengths_are_refused() {
        let zoo = Zoo::standard();
        let network = NetworkSpec::named("mlp").build(Shape::new(1, 8, 8), 10).unwrap();
        let init = Model { parameters: vec![0.0; network.layout().parameters()], buffers: vec![] };
        for (name, settings, grown) in [
            ("fedavg", "", false),
            ("fedrod", "", false),
            ("fedrod", "hypernetwork = true", true),
            ("fedgen", "", true),
        ] {
            let method = zoo.build(name, &settings.parse().unwrap()).unwrap().method;
            let first = method.broadcast(&method.start_server(&init)).unwrap();
            let of = |broadcast: &Value| -> Vec<usize> {
                method.broadcast_vectors(broadcast).unwrap().iter().map(|v| v.len()).collect()
            };
            let bound = Bound {
                first: first.encoded_len().unwrap() as u64,
                lengths: of(&first),
                grows: method.broadcast_grows(&*network),
                sent: 0,
                rounds: 3,
                network: "mlp".into(),
            };
            assert_eq!(bound.grows > 0, grown, "{name}");
            bound.check(&*method, 1, &first).unwrap();
            let short = Model { parameters: vec![0.0; 7], buffers: vec![] };
            let short = method.broadcast(&method.start_server(&short)).unwrap();
            let error = bound.check(&*method, 2, &short).unwrap_err().to_string();
            assert!(
                error.contains("the broadcast of round 2") && error.contains("[7, 0"),
                "{error}"
            );
            let file = |bytes| proto::File { bytes, hash: Vec::new() };
            bound.check_file(1, &file(bound.first)).unwrap();
            let error = bound.check_file(1, &file(1 << 50)).unwrap_err().to_string();
            assert!(error.contains("1,125,899,906,842,624 bytes"), "{error}");
            bound.check_file(4, &file(1)).unwrap();
            for round in [0, 5, u64::MAX] {
                bound.check_file(round, &file(1)).unwrap_err();
            }
        }
    }
}
