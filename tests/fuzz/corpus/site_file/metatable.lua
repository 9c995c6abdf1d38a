return { partition = {}, vm_sizes = { STANDARD_NC6 = { gpus = 1.5 } }, unknown = function() end }
