//! Clients that exist already: the samples know whose they are.

use crate::holding::Holding;
use crate::partition::{Division, Shares};
use crate::{DataError, Dataset, PartitionPlan};

/// Gives everyone his own samples, of a pool by class. Owners of fewer than the minimum are left out; of the
/// others, all are clients or as many as the plan says, in the order in which the data name them.
pub(crate) fn divide(
    plan: &PartitionPlan,
    pool: &[Vec<u32>],
    dataset: &Dataset,
) -> Result<Division, DataError> {
    let refuse = |key, value: String, remedy| Err(DataError::Plan { key, value, remedy });
    let known = dataset.owners.as_deref().filter(|known| known.of.len() == dataset.train.len());
    let Some(owners) = known else {
        return refuse(
            "partition",
            "\"natural\"".into(),
            format!(
                "{} does not say whose its samples are: choose another partition, or data with clients",
                dataset.name
            ),
        );
    };
    let mut held = vec![Holding::default(); owners.names.len()];
    for (class, members) in (0u16..).zip(pool) {
        for &sample in members {
            let Some(holding) = held.get_mut(owners.of[sample as usize] as usize) else {
                return refuse(
                    "partition",
                    "\"natural\"".into(),
                    format!("sample {sample} of {} belongs to nobody: mend the data", dataset.name),
                );
            };
            holding.add(class, &[sample]);
        }
    }
    let min = plan.min_samples;
    let mut chosen: Vec<usize> = (0..held.len()).filter(|&i| held[i].size() >= min).collect();
    let (all, fit) = (held.len(), chosen.len());
    let wanted = plan.clients.unwrap_or(fit);
    if fit == 0 || wanted > fit {
        let more = if plan.samples.is_some() { ", or raise samples" } else { "" };
        let value = plan.clients.map_or_else(|| "unset".into(), |clients| clients.to_string());
        let found = format!("{fit} of the {all} clients of {} hold {min} samples", dataset.name);
        return refuse("clients", value, format!("{found}: lower clients or min_samples{more}"));
    }
    let mut remarks = Vec::new();
    if fit < all {
        remarks.push(format!(
            "{} of the {all} clients of {} hold fewer than min_samples = {min} samples and are left out",
            all - fit,
            dataset.name
        ));
    }
    if wanted < fit {
        plan.rng(0).shuffle(&mut chosen);
        chosen.truncate(wanted);
        chosen.sort_unstable();
    }
    let names = chosen.iter().map(|&owner| owners.names[owner].clone()).collect();
    let holdings = chosen.iter().map(|&owner| std::mem::take(&mut held[owner])).collect();
    Ok(Division { shares: Shares::Whole(holdings), names: Some(names), remarks, repaired: None })
}
