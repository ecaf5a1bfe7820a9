//! In which order clients are trained.
//!
//! Uploads are summed in client order as they come in, so clients are trained in that order: then
//! few uploads wait for their turn. But the last jobs of a round decide how long a worker stands
//! idle at its end, so those are started longest first.

use std::cmp::Reverse;

/// The end of the order that is rearranged holds at least this many times the work that its longest
/// job gives all workers, so that short jobs are left to fill the gaps.
const SLACK: usize = 4;

/// The order in which to start clients that stand in ascending order: the same, but for its end,
/// which is longest first.
pub(super) fn training_order(
    clients: &[usize],
    threads: usize,
    work: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut order = clients.to_vec();
    // The end begins no later than the first client who takes longer than all others together take
    // for what comes after it.
    let (mut end, mut after) = (order.len(), 0);
    for (i, client) in clients.iter().enumerate().rev() {
        if work(*client) * threads.saturating_sub(1) > after {
            end = i;
        }
        after += work(*client);
    }
    let weigh = |part: &[usize]| {
        let sizes = part.iter().map(|client| work(*client));
        (sizes.clone().sum::<usize>(), sizes.max().unwrap_or(0))
    };
    let (mut total, mut longest) = weigh(&order[end..]);
    while end > 0 && total < SLACK * threads * longest {
        end -= 1;
        total += work(order[end]);
        longest = longest.max(work(order[end]));
    }
    order[end..].sort_by_key(|client| Reverse(work(*client)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(sizes: &[usize], threads: usize) -> Vec<usize> {
        let clients: Vec<usize> = (0..sizes.len()).collect();
        training_order(&clients, threads, |client| sizes[client])
    }

    #[test]
    fn equal_clients_keep_their_order() {
        for threads in [1, 2, 8] {
            assert_eq!(order(&[5; 6], threads), [0, 1, 2, 3, 4, 5]);
        }
        assert!(order(&[], 2).is_empty());
    }

    #[test]
    fn one_worker_needs_no_rearrangement() {
        assert_eq!(order(&[1, 9, 3], 1), [0, 1, 2]);
    }

    #[test]
    fn a_long_job_comes_before_enough_short_ones() {
        // Twenty jobs of 1, then one of 3: it starts when 4 · 2 · 3 units are left, or as many as
        // there are.
        let sizes = [[1; 30].as_slice(), &[3]].concat();
        let order = order(&sizes, 2);
        assert_eq!(order[..9], (0..9).collect::<Vec<_>>());
        assert_eq!(order[9..11], [30, 9]);
    }

    #[test]
    fn a_job_that_outlasts_all_others_is_first_wherever_it_stands() {
        for place in 0..5 {
            let mut sizes = [1; 5];
            sizes[place] = 100;
            assert_eq!(order(&sizes, 2)[0], place);
        }
    }

    #[test]
    fn everybody_is_there_once() {
        let sizes: Vec<usize> = (0..100).map(|i| (i * 37) % 11 + 1).collect();
        let mut order = order(&sizes, 3);
        // Only the end: uploads that wait for their turn stay few.
        assert_eq!(order[..70], (0..70).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }
}
