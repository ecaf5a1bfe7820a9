//! What can go wrong between ranks.

/// Ranks cannot begin, or cannot go on together.
#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    /// Ranks that were not heard for so long that they are lost.
    #[error("{}", silence(*seconds, others.iter().map(|rank| format!("rank {rank}"))))]
    Lost {
        /// How long the one that was waited for has been silent.
        seconds: u64,
        /// Who else has been.
        others: Vec<usize>,
    },
    /// What connects ranks has failed.
    #[error("{0}")]
    Fabric(String),
    /// A rank says something that it was not asked, or that nobody understands.
    #[error("{0}")]
    Protocol(String),
    /// Ranks that cannot take part, and why: each says what is to be done.
    #[error("not all ranks can take part{}", list(.0))]
    Refused(Vec<(String, String)>),
    /// A program that cannot read its own binary, by which ranks know that they are the same.
    #[error(
        "cannot read the binary of {host}: {source}\nhint: it has to stay readable where it was started from"
    )]
    Binary {
        /// Where.
        host: String,
        /// Why.
        source: std::io::Error,
    },
}

/// How long a rank was not heard, and who else was not.
pub(crate) fn silence(seconds: u64, others: impl Iterator<Item = String>) -> String {
    let others: Vec<String> = others.collect();
    let others = match others.as_slice() {
        [] => String::new(),
        names => format!(", and neither was {}", names.join(", nor ")),
    };
    format!("it has not been heard for {seconds} seconds{others}")
}

fn list(refused: &[(String, String)]) -> String {
    refused.iter().flat_map(|(name, why)| ["\n  ", name, ": ", why]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_are_silent_are_named() {
        let lost = |others| RanksError::Lost { seconds: 61, others }.to_string();
        assert_eq!(lost(vec![]), "it has not been heard for 61 seconds");
        assert_eq!(
            lost(vec![2, 3]),
            "it has not been heard for 61 seconds, and neither was rank 2, nor rank 3"
        );
    }

    #[test]
    fn whoever_is_refused_is_named() {
        let refused = vec![("rank 1 on b".into(), "no data".into())];
        let text = RanksError::Refused(refused).to_string();
        assert_eq!(text, "not all ranks can take part\n  rank 1 on b: no data");
    }
}
