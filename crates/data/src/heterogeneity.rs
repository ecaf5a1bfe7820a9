//! How much the clients of a division differ.

/// `Σ p_c²`, `p_c` being the share of class `c` in some samples, by how many there are of each class: 1 if
/// all are of one class, `1 / classes` if all classes are even. None without samples.
pub(crate) fn concentration(counts: impl Iterator<Item = usize>) -> Option<f64> {
    let (total, squares) = counts.fold((0.0, 0.0), |(total, squares), count| {
        let count = count as f64;
        (total + count, squares + count * count)
    });
    (total > 0.0).then(|| squares / (total * total))
}

/// Its mean over clients; those without samples do not count. None if nobody has any.
pub(crate) fn mean_concentration<C: Iterator<Item = usize>>(
    clients: impl Iterator<Item = C>,
) -> Option<f64> {
    let (sum, counted) = clients
        .filter_map(concentration)
        .fold((0.0, 0.0), |(sum, counted), one| (sum + one, counted + 1.0));
    (counted > 0.0).then(|| sum / counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_class_is_one_and_even_classes_are_one_over_their_number() {
        assert_eq!(concentration([7].into_iter()), Some(1.0));
        assert_eq!(concentration([3, 0, 3, 3, 3].into_iter()), Some(0.25));
        assert_eq!(concentration([0, 0].into_iter()), None);
        let clients = [vec![4, 0], vec![0, 0], vec![2, 2]];
        assert_eq!(mean_concentration(clients.into_iter().map(Vec::into_iter)), Some(0.75));
        assert_eq!(mean_concentration([vec![0]].into_iter().map(Vec::into_iter)), None);
    }
}
