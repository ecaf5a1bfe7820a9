//! Whether this process was started with others, as launchers tell in the environment.

/// What launchers call the number of processes and the number of one of them, and whether the processes may well be
/// meant to know nothing of each other: `srun` starts any program.
const LAUNCHERS: &[(&str, &str, bool)] = &[
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", false),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", false),
    ("PMI_SIZE", "PMI_RANK", true),
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", true),
];

/// A process among others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launched {
    /// Its number.
    pub rank: usize,
    /// How many there are.
    pub size: usize,
    /// Whether the launcher may have started processes that know nothing of each other.
    pub may_be_alone: bool,
}

/// What a launcher has said of this process, if there was one.
pub fn launched() -> Option<Launched> {
    read(|name| std::env::var(name).ok())
}

fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    LAUNCHERS.iter().find_map(|(size, rank, may_be_alone)| {
        let number = |name| variable(name)?.trim().parse().ok();
        let (size, rank) = (number(size)?, number(rank).unwrap_or(0));
        Some(Launched { rank, size, may_be_alone: *may_be_alone })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Option<Launched> {
        read(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "many")]), None);
        let set = [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3")];
        assert_eq!(of(&set), Some(Launched { rank: 3, size: 4, may_be_alone: false }));
        // Slurm's variables are there too where `mpirun` runs in a job.
        let both = [&set[..], &[("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_PROCID", "0")]].concat();
        assert_eq!(of(&both), of(&set));
        let slurm = [("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_PROCID", "1")];
        assert_eq!(of(&slurm), Some(Launched { rank: 1, size: 2, may_be_alone: true }));
    }
}
